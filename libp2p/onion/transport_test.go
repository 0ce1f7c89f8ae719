package onion

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/chivenet/chive"
)

// listens opens a node's onion. The node closes it.
func listens(t *testing.T, n *node) transport.Listener {
	t.Helper()
	l, err := n.Listen(n.addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// dials connects one node to another one's onion. The connection ends with the test.
func dials(t *testing.T, n, to *node) transport.CapableConn {
	t.Helper()
	c, err := n.Dial(t.Context(), to.addr, to.id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// accepts takes the next connection of a listener. It ends with the test.
func accepts(t *testing.T, l transport.Listener) transport.CapableConn {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestDial: a connection has the peer that was asked for, tells no address of its own side,
// and carries streams.
func TestDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a, b := newNode(t, f, nil, nil), newNode(t, f, nil, nil)
		l := listens(t, b)
		if !l.Multiaddr().Equal(b.addr) {
			t.Errorf("it listens at %s", l.Multiaddr())
		}
		c := dials(t, a, b)
		came := accepts(t, l)
		if c.RemotePeer() != b.id || came.RemotePeer() != a.id {
			t.Errorf("the peers are %s and %s", c.RemotePeer(), came.RemotePeer())
		}
		for _, is := range []struct{ got, want ma.Multiaddr }{
			{c.RemoteMultiaddr(), b.addr}, {c.LocalMultiaddr(), unknown},
			{came.LocalMultiaddr(), b.addr}, {came.RemoteMultiaddr(), unknown},
		} {
			if !is.got.Equal(is.want) {
				t.Errorf("an address is %s, not %s", is.got, is.want)
			}
		}
		if c.Transport() != a.Transport {
			t.Error("the connection is of another transport")
		}
		s, err := c.OpenStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(s, "hello"); err != nil {
			t.Fatal(err)
		}
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		there, err := came.AcceptStream()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(there); err != nil || string(got) != "hello" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestOtherPeer: whoever has the onion without the peer's key gets no connection.
func TestOtherPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a, b := newNode(t, f, nil, nil), newNode(t, f, nil, nil)
		listens(t, b)
		if c, err := a.Dial(t.Context(), b.addr, a.id); err == nil {
			c.Close()
			t.Error("it took another peer")
		}
		idle(t, a)
	})
}

// TestIsolation: each peer has its own key, which no other transport has either, or the
// one that the caller's function gives.
func TestIsolation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.fail = chive.ErrNetwork
		a, b := newNode(t, f, nil, nil), newNode(t, f, nil, nil)
		same := nodeWith(t, f, nil, nil, Config{Isolation: func(p peer.ID) string { return "all but " + p.String()[:4] }})
		for _, d := range []struct {
			n *node
			p peer.ID
		}{{a, a.id}, {a, a.id}, {a, b.id}, {b, a.id}, {same, a.id}, {same, b.id}} {
			if _, err := d.n.Dial(t.Context(), a.addr, d.p); !errors.Is(err, chive.ErrNetwork) {
				t.Fatal(err)
			}
		}
		k := f.keys
		if k[0] != k[1] || k[4] != k[5] || k[4] != "all but "+a.id.String()[:4] {
			t.Errorf("keys that must be equal: %q", k)
		}
		if got := slices.Compact(slices.Sorted(slices.Values(k))); len(got) != 4 {
			t.Errorf("keys that must differ: %q", k)
		}
	})
}

// TestAddresses: what is no onion is refused, with the reason.
func TestAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		n := newNode(t, f, nil, nil)
		onion, id := n.addr.String(), n.id.String()
		for _, a := range []struct{ addr, says string }{
			{"/ip4/127.0.0.1/tcp/4001", "begins with /ip4"},
			{"/dns4/example.com/tcp/4001", "begins with /dns4"},
			{"/dnsaddr/example.com", "begins with /dnsaddr"},
			{"/ip4/127.0.0.1/tcp/4001" + onion, "begins with /ip4"},
			{"/onion/aaimaq4ygg2iegci:80", "version 2"},
			{onion + "/ws", "/ws follows"},
			{onion + "/p2p/" + id, "/p2p follows"},
			{onion + "/p2p/" + id + "/p2p-circuit", "/p2p follows"},
		} {
			addr, err := ma.NewMultiaddr(a.addr)
			if err != nil {
				t.Fatal(err)
			}
			if n.CanDial(addr) {
				t.Errorf("it can dial %s", addr)
			}
			if _, err := n.Dial(t.Context(), addr, n.id); !errors.Is(err, ErrAddress) || !strings.Contains(err.Error(), a.says) {
				t.Errorf("%s: %v", addr, err)
			}
			if _, err := n.Listen(addr); !errors.Is(err, ErrAddress) || !strings.Contains(err.Error(), a.says) {
				t.Errorf("%s: %v", addr, err)
			}
		}
		if _, err := n.Dial(t.Context(), nil, n.id); !errors.Is(err, ErrAddress) {
			t.Error(err)
		}
		// These are no multiaddresses.
		for _, text := range []string{strings.Replace(onion, ":4001", ":0", 1), strings.Replace(onion, ":4001", "", 1), strings.Replace(onion, ":4001", ":70000", 1), onion[:40] + ":4001"} {
			if addr, err := ma.NewMultiaddr(text); err == nil {
				t.Errorf("libp2p reads %s", addr)
			}
		}
		if len(f.keys) != 0 {
			t.Errorf("%d addresses were dialled", len(f.keys))
		}
		if !n.CanDial(n.addr) || n.Proxy() || !slices.Equal(n.Protocols(), []int{ma.P_ONION3}) || n.String() != "onion3" {
			t.Error("it is no transport for onions")
		}
	})
}

// TestListen: a host listens at the onion of its key, once at a time.
func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		n, other := newNode(t, f, nil, nil), newNode(t, f, nil, nil)
		if _, err := nodeWith(t, f, nil, nil, Config{}).Listen(n.addr); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "no Key") {
			t.Errorf("without a key: %v", err)
		}
		if _, err := n.Listen(other.addr); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "not that of the key") {
			t.Errorf("at another onion: %v", err)
		}
		l := listens(t, n)
		if s := f.services[fmt.Sprint(l.Addr())]; s.cfg.MaxStreams != DefaultMaxStreams {
			t.Errorf("a circuit may have %d connections", s.cfg.MaxStreams)
		}
		if _, err := n.Listen(n.addr); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "already") {
			t.Errorf("a second time: %v", err)
		}
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Error(err)
		}
		if _, err := l.Accept(); !errors.Is(err, transport.ErrListenerClosed) {
			t.Errorf("after Close: %v", err)
		}
		listens(t, n)
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if _, err := n.Listen(n.addr); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after the transport's Close: %v", err)
		}
		if _, err := n.Dial(t.Context(), n.addr, n.id); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after the transport's Close: %v", err)
		}
		if len(f.services) != 0 {
			t.Error("a service is open")
		}
	})
}

// TestConfig: what has no effect, or another, is refused.
func TestConfig(t *testing.T) {
	for _, o := range []chive.OnionConfig{
		{Ports: []int{1}}, {KeyDir: "here"}, {Targets: map[int]string{80: "127.0.0.1:80"}}, {MoreTargets: map[int][]string{80: nil}},
		{Backends: []string{"a"}}, {Masters: []string{"a"}}, {ExportCircuitID: "haproxy"},
	} {
		if _, err := newTransport(newFake(), Config{Onion: o})(nil, nil, nil); !errors.Is(err, ErrConfig) {
			t.Errorf("%v", err)
		}
		if _, err := newHost(newFake(), Config{Onion: o}); !errors.Is(err, ErrConfig) {
			t.Errorf("%v", err)
		}
	}
	key, err := chive.NewOnionKey()
	if err != nil {
		t.Fatal(err)
	}
	for port, key := range map[int]chive.OnionKey{0: key, 65536: key, 80: {}} {
		if _, err := ListenAddr(key, port); !errors.Is(err, ErrConfig) {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

// TestErrors: libp2p's users see of what kind a failure is, and nothing stays of the dial.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		n := newNode(t, f, nil, nil)
		if _, err := n.Dial(t.Context(), n.addr, n.id); !errors.Is(err, chive.ErrOnionNoDescriptor) {
			t.Errorf("nobody is there: %v", err)
		}
		f.stuck = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := n.Dial(ctx, n.addr, n.id); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody answers: %v", err)
		}
		idle(t, n)
		full := newNode(t, f, noConns(), nil)
		if _, err := full.Dial(t.Context(), n.addr, n.id); !errors.Is(err, network.ErrResourceLimitExceeded) {
			t.Errorf("the resource manager allows nothing: %v", err)
		}
	})
}

// TestCloseDials: Close ends dials that wait, and waits until they have ended.
func TestCloseDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.stuck, f.linger = true, time.Second
		n := newNode(t, f, nil, nil)
		failed := make(chan error, 1)
		go func() {
			_, err := n.Dial(t.Context(), n.addr, n.id)
			failed <- err
		}()
		synctest.Wait()
		began := time.Now()
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Second { // of virtual time
			t.Errorf("Close returned after %v, and the dial ended after a second", took)
		}
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// idle checks that the resource manager holds nothing for a node.
func idle(t *testing.T, n *node) {
	t.Helper()
	if got := system(t, n); got != (network.ScopeStat{}) {
		t.Errorf("the resource manager holds %+v", got)
	}
}

func system(t *testing.T, n *node) (out network.ScopeStat) {
	t.Helper()
	if err := n.limits.ViewSystem(func(s network.ResourceScope) error { out = s.Stat(); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// noConns is a limiter that allows no connection.
func noConns() rcmgr.Limiter {
	l := rcmgr.PartialLimitConfig{System: rcmgr.ResourceLimits{Conns: rcmgr.BlockAllLimit}}
	return rcmgr.NewFixedLimiter(l.Build(rcmgr.InfiniteLimits))
}
