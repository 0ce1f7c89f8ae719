package onion

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	libp2p "github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	madns "github.com/multiformats/go-multiaddr-dns"
	"go.uber.org/fx"

	"github.com/chivenet/chive"
)

// hostOf makes a host with an onion of its own, which the test closes.
func hostOf(t *testing.T, f *fake, opts ...libp2p.Option) host.Host {
	t.Helper()
	key, err := chive.NewOnionKey()
	if err != nil {
		t.Fatal(err)
	}
	addr, err := ListenAddr(key, 4001)
	if err != nil {
		t.Fatal(err)
	}
	h, err := newHost(f, Config{Onion: chive.OnionConfig{Key: key}}, append(opts, libp2p.ListenAddrs(addr))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// TestRefused: an option that would open another way out is an error, which says which.
func TestRefused(t *testing.T) {
	for says, o := range map[string]libp2p.Option{
		"another transport":       libp2p.Transport(tcp.NewTCPTransport),
		"sockets for other":       libp2p.ShareTCPListener(),
		"libp2p's relays":         libp2p.EnableRelay(),
		"relays: a service":       libp2p.EnableRelayService(),
		"hole punching":           libp2p.EnableHolePunching(),
		"NAT port mapping":        libp2p.NATPortMap(),
		"(AutoNAT)":               libp2p.EnableNATService(),
		"(AutoNAT): version 2":    libp2p.EnableAutoNATv2(),
		"a resolver of names":     libp2p.MultiaddrResolver(swarm.ResolverFromMaDNS{Resolver: madns.DefaultResolver}),
		"other protection":        libp2p.Security(libp2ptls.ID, libp2ptls.New),
		"other protection: none":  libp2p.NoSecurity,
		"nobody can check":        libp2p.WithFxOption(fx.Options()),
		"the address begins with": libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"),
	} {
		says, _, _ = strings.Cut(says, ": ")
		if h, err := newHost(newFake(), Config{}, o); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
			if err == nil {
				h.Close()
			}
		}
	}
}

// TestFails: a host that cannot be made leaves nothing of ours, and the error says why.
func TestFails(t *testing.T) {
	broken := errors.New("broken")
	for _, o := range []libp2p.Option{
		func(*libp2p.Config) error { return broken },
		libp2p.SwarmOpts(func(*swarm.Swarm) error { return broken }), // after which libp2p's own parts stay
	} {
		closed := new(closing)
		if _, err := newHost(newFake(), Config{}, o, func(c *libp2p.Config) error {
			c.ConnManager = closed // the caller's: it stays open
			return nil
		}); !errors.Is(err, broken) || closed.n != 0 {
			t.Errorf("%v, closed %d times", err, closed.n)
		}
	}
	all, end := make([]byte, 16<<20), time.Now().Add(time.Minute)
	for ; ; runtime.Gosched() {
		stacks := string(all[:runtime.Stack(all, true)])
		if !strings.Contains(stacks, "p2p/host/resource-manager.(") && !strings.Contains(stacks, "p2p/host/peerstore/pstoremem.(") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the host's resource manager or peerstore is open")
		}
	}
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine stays
		key, err := chive.NewOnionKey()
		if err != nil {
			t.Fatal(err)
		}
		addr, err := ListenAddr(key, 4001)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newHost(newFake(), Config{}, libp2p.ListenAddrs(addr)); !errors.Is(err, ErrConfig) {
			t.Errorf("without a key: %v", err)
		}
	})
}

// closing is a connection manager that counts how often it is closed.
type closing struct {
	connmgr.NullConnMgr
	n int
}

func (c *closing) Close() error {
	c.n++
	return nil
}

// TestTells: a host tells its onion and no other address, asks nobody about itself, and
// offers nothing but identify and pings.
func TestTells(t *testing.T) {
	f := newFake()
	more := ma.StringCast("/ip4/127.0.0.1/tcp/4001")
	h := hostOf(t, f, libp2p.AddrsFactory(func(own []ma.Multiaddr) []ma.Multiaddr { return append(own, more) }))
	if got := h.Addrs(); len(got) != 1 || !onion3(got[0]) || !got[0].Equal(h.Network().ListenAddresses()[0]) {
		t.Errorf("it tells %v", got)
	}
	var offered []string
	for _, p := range h.Mux().Protocols() {
		offered = append(offered, string(p))
	}
	slices.Sort(offered)
	if want := []string{"/ipfs/id/1.0.0", "/ipfs/id/push/1.0.0", "/ipfs/ping/1.0.0"}; !slices.Equal(offered, want) {
		t.Errorf("it offers %v", offered)
	}
	reach, err := h.EventBus().Subscribe(new(event.EvtLocalReachabilityChanged))
	if err != nil {
		t.Fatal(err)
	}
	defer reach.Close()
	if e := (<-reach.Out()).(event.EvtLocalReachabilityChanged); e.Reachability != network.ReachabilityPublic {
		t.Errorf("it takes itself for %v, and would ask others", e.Reachability)
	}
	if err := WaitPublished(t.Context(), h); err != nil {
		t.Error(err)
	}
	all := make([]byte, 16<<20)
	if strings.Contains(string(all[:runtime.Stack(all, true)]), "/host/observedaddrs.") {
		t.Error("it collects what peers tell of its address")
	}
	silent, err := newHost(f, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if err := WaitPublished(t.Context(), silent); !errors.Is(err, ErrConfig) {
		t.Errorf("of a host without an onion: %v", err)
	}
}

// TestGateAlone: the gate of a host refuses what is no onion, whoever allows it.
func TestGateAlone(t *testing.T) {
	for _, g := range []gate{{}, {&picky{}}} {
		for _, text := range []string{"/ip4/127.0.0.1/tcp/4001", "/dnsaddr/chive.example", unknown.String() + "/ws"} {
			if g.InterceptAddrDial("", ma.StringCast(text)) {
				t.Errorf("it lets %s be dialled", text)
			}
		}
		if !g.InterceptAddrDial("", unknown) {
			t.Error("it lets no onion be dialled")
		}
	}
}

// TestDialTimeout: a dial has a minute, or what the option says.
func TestDialTimeout(t *testing.T) {
	for _, want := range []time.Duration{DefaultDialTimeout, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.stuck = true
			var opts []libp2p.Option
			if want != DefaultDialTimeout {
				opts = append(opts, libp2p.WithDialTimeout(want))
			}
			h, err := newHost(f, Config{}, opts...)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := h.Connect(t.Context(), peer.AddrInfo{ID: "somebody", Addrs: []ma.Multiaddr{unknown}}); err == nil {
				t.Error("it connected")
			}
			if took := time.Since(began); took != want { // of virtual time
				t.Errorf("it took %v, not %v", took, want)
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCallersGater: the caller's gater is asked about everything that a host's own allows.
func TestCallersGater(t *testing.T) {
	f := newFake()
	b := hostOf(t, f)
	for _, deny := range []string{"", "peer", "address", "secured", "upgraded"} {
		g := &counting{picky: picky{accept: true, secured: true}, deny: deny}
		a := hostOf(t, f, libp2p.ConnectionGater(g))
		err := a.Connect(t.Context(), peer.AddrInfo{ID: b.ID(), Addrs: b.Addrs()})
		if (err == nil) != (deny == "") {
			t.Errorf("%q: %v", deny, err)
		}
	}
	// And about those that come.
	for _, p := range []picky{{accept: true, secured: true}, {secured: true}, {accept: true}} {
		a := hostOf(t, f, libp2p.ConnectionGater(&p))
		err := b.Connect(t.Context(), peer.AddrInfo{ID: a.ID(), Addrs: a.Addrs()})
		if err == nil && p.accept && p.secured {
			continue
		}
		if p.accept && p.secured || err == nil && !p.accept {
			t.Errorf("%+v: %v", p, err)
		}
		if n := len(a.Network().ConnsToPeer(b.ID())); n != 0 {
			t.Errorf("%+v: %d connections", p, n)
		}
	}
}

// counting is a gater that denies one thing.
type counting struct {
	picky
	deny string
}

func (c *counting) InterceptPeerDial(peer.ID) bool               { return c.deny != "peer" }
func (c *counting) InterceptAddrDial(peer.ID, ma.Multiaddr) bool { return c.deny != "address" }
func (c *counting) InterceptSecured(network.Direction, peer.ID, network.ConnMultiaddrs) bool {
	return c.deny != "secured"
}
func (c *counting) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) {
	return c.deny != "upgraded", 0
}
