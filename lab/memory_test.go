package lab

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/labtest"
)

// TestMemory: a network in memory carries what the kernel's does.
func TestMemory(t *testing.T) {
	labtest.NoLeaks(t)
	nw, err := Start(t.Context(), Options{Authorities: 1, Relays: 2, Exits: 1, Host: new(memory).Host})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	if _, err := nw.Fetch(t.Context(), 100_000); err != nil {
		t.Error(err)
	}
	for _, n := range nw.Nodes() {
		if c, err := net.Dial("tcp", n.ORPort); err == nil {
			c.Close()
			t.Errorf("the kernel knows of %s at %s", n.Name, n.ORPort)
		}
	}
	if err := nw.Close(); err != nil {
		t.Error(err)
	}
}

// TestMemoryHosts: ports and addresses are as a kernel's.
func TestMemoryHosts(t *testing.T) {
	var m memory
	var hosts [70_000]Host
	seen := map[netip.Addr]bool{}
	for i := range hosts {
		h, err := m.Host("")
		if err != nil || !h.Addr().IsLoopback() || seen[h.Addr()] {
			t.Fatalf("host %d: %v, %v", i, h.Addr(), err)
		}
		hosts[i], seen[h.Addr()] = h, true
	}
	a, b := hosts[0], hosts[1]
	at := netip.AddrPortFrom(b.Addr(), 9001)
	if _, err := a.Dial(t.Context(), at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error("nobody listens: ", err)
	}
	ln, err := b.Listen(9001)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Listen(9001); !errors.Is(err, syscall.EADDRINUSE) {
		t.Error("listened twice: ", err)
	}
	if other, err := a.Listen(9001); err != nil {
		t.Error("another host has this port: ", err)
	} else {
		other.Close()
	}
	c, err := a.Dial(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d, err := ln.Accept()
	if err != nil || d.LocalAddr().String() != at.String() || d.RemoteAddr().String() != c.LocalAddr().String() {
		t.Fatal(err, d.LocalAddr(), d.RemoteAddr(), c.LocalAddr())
	}
	for range memoryBacklog {
		c, err := a.Dial(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if _, err := a.Dial(t.Context(), at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error("more wait than may: ", err)
	}
	ln.Close()
	if _, err := a.Dial(t.Context(), at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error("a closed port: ", err)
	}
	if ln, err = b.Listen(9001); err != nil {
		t.Error("the port is free again: ", err)
	} else {
		ln.Close()
	}
}

// TestLarge: a large network is in memory, and a hundred of its relays are directory caches.
func TestLarge(t *testing.T) {
	small := Options{Relays: 195, Exits: 2}
	if err := small.check(); err != nil || small.Host != nil || small.VotingInterval != defaultInterval {
		t.Errorf("200 nodes: %v, in memory: %v, rounds each %v", err, small.Host != nil, small.VotingInterval)
	}
	o := Options{Relays: 400, Exits: 100}
	if err := o.check(); err != nil || o.Host == nil || !o.large() || o.VotingInterval != largeInterval {
		t.Errorf("503 nodes: %v, in memory: %v, large: %v, rounds each %v", err, o.Host != nil, o.large(), o.VotingInterval)
	}
	nw := &Network{opts: o}
	nw.enlistRelays()
	caches := 0
	for _, n := range nw.Nodes() {
		if !n.NoDirCache {
			caches++
		}
	}
	if len(nw.Nodes()) != 500 || caches != maxCaches {
		t.Errorf("%d relays, %d of them caches", len(nw.Nodes()), caches)
	}
	for name, bad := range map[string]Options{
		"processes":  {Relays: 300, Processes: true, Program: "chive"},
		"C tor":      {Relays: 300, CtorClients: 1},
		"transports": {Relays: 300, Bridges: 1, BridgeTransports: []string{"obfs4 exec /bin/false"}},
		"too many":   {Relays: maxNodes},
	} {
		if err := bad.check(); !fault.Is(err, fault.Config) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
