package lab_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/lab"
)

// ownHost is a host with an address of its own on loopback.
type ownHost struct {
	addr   netip.Addr
	dialed atomic.Int32
}

func (h *ownHost) Addr() netip.Addr { return h.addr }

func (h *ownHost) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	h.dialed.Add(1)
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(h.addr, 0))}
	return d.DialContext(ctx, "tcp", to.String())
}

func (h *ownHost) Listen(port uint16) (net.Listener, error) {
	return net.Listen("tcp4", netip.AddrPortFrom(h.addr, port).String())
}

// TestHosts: each node has the host that it was given, from its start and after it started again, and opens its
// connections there.
func TestHosts(t *testing.T) {
	labtest.NoLeaks(t)
	if ln, err := net.Listen("tcp4", "127.77.0.1:0"); err != nil {
		t.Skipf("this system has one address on loopback: %v", err)
	} else {
		ln.Close()
	}
	var mu sync.Mutex
	hosts := map[string]*ownHost{}
	nw := start(t, lab.Options{Authorities: 1, Relays: 2, Exits: 1, Host: func(name string) (lab.Host, error) {
		mu.Lock()
		defer mu.Unlock()
		if hosts[name] != nil {
			return nil, errors.New("it has one already")
		}
		hosts[name] = &ownHost{addr: netip.AddrFrom4([4]byte{127, 77, 0, byte(len(hosts) + 1)})}
		return hosts[name], nil
	}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := nw.Node("chiverelay0").Restart(ctx); err != nil {
		t.Fatal(err)
	}
	added, err := nw.Add(ctx, lab.Client)
	if err != nil {
		t.Fatal(err)
	}
	if err := added.Client().Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if err := nw.WaitListed(ctx, nw.Node("chiverelay0")); err != nil {
		t.Error(err)
	}
	for _, n := range nw.Nodes() {
		h := hosts[n.Name]
		if h == nil {
			t.Errorf("%s has no host", n.Name)
		} else if at, err := netip.ParseAddrPort(n.ORPort); n.Role != lab.Client && (err != nil || at.Addr() != h.addr) {
			t.Errorf("%s listens at %s, and its host is %v", n.Name, n.ORPort, h.addr)
		}
	}
	for _, name := range []string{"client", added.Name, "chiverelay1"} {
		if hosts[name].dialed.Load() == 0 {
			t.Errorf("%s went another way", name)
		}
	}
}

// TestHostsRefused: what cannot have a host, and a host that cannot be had.
func TestHostsRefused(t *testing.T) {
	none := func(string) (lab.Host, error) { return nil, nil }
	for want, o := range map[string]lab.Options{
		"processes use":    {Processes: true, Program: "chive", Host: none},
		"can have no":      {CtorClients: 1, Host: none},
		"transports use":   {Bridges: 1, BridgeTransports: []string{"a exec /b"}, Host: none},
		"returned nothing": {Host: none},
		"its host: no":     {Host: func(string) (lab.Host, error) { return nil, fault.New(fault.Resource, "no") }},
	} {
		nw, err := lab.Start(t.Context(), o)
		if err == nil {
			nw.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
