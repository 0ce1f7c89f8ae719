package devp2p_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
	"github.com/chivenet/chive/devp2p/internal/onionsim"
)

// world is a node behind an onion of a simulated network, with an address too.
type world struct {
	nw    *onionsim.Network
	onion devp2p.Onion3
	both  *enode.Node // has an onion and an address
	only  *enode.Node // has an onion
	clear *enode.Node // has an address
	dials int         // of addresses
	deny  error       // of addresses
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{nw: onionsim.New()}
	l, err := w.nw.Node().ListenOnion(t.Context(), "", 30303)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	w.onion = l.Onion()
	ip := enr.IPv4(net.IPv4(192, 0, 2, 1))
	w.both, w.only, w.clear = nodetest.Peer(t, w.onion, ip), nodetest.Peer(t, w.onion), nodetest.Peer(t, ip)
	return w
}

func (w *world) transport(t *testing.T, cfg devp2p.Config) *devp2p.Transport {
	t.Helper()
	if cfg.Policy != devp2p.Clearnet {
		cfg.Onions = w.nw.Node()
	}
	cfg.DialAddr = func(ctx context.Context, network, addr string) (net.Conn, error) {
		w.dials++
		if addr != "192.0.2.1:30303" || network != "tcp" {
			t.Errorf("%s %s was dialled", network, addr)
		}
		if w.deny != nil {
			return nil, w.deny
		}
		a, b := net.Pipe()
		b.Close()
		return a, nil
	}
	tr, err := devp2p.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

// TestPolicies: which way each policy takes to which node.
func TestPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const onion, addr, refused = "onion", "address", ""
		for _, c := range []struct {
			policy            devp2p.Policy
			both, only, clear string
		}{
			{devp2p.OnlyOnion, onion, onion, refused},
			{devp2p.Clearnet, addr, refused, addr},
			{devp2p.PreferOnion, onion, onion, addr},
			{devp2p.Adaptive, onion, onion, addr},
		} {
			tr := w.transport(t, devp2p.Config{Policy: c.policy})
			for name, n := range map[string]*enode.Node{"both": w.both, "only": w.only, "clear": w.clear} {
				want := map[string]string{"both": c.both, "only": c.only, "clear": c.clear}[name]
				conn, r, err := tr.DialRoute(t.Context(), n)
				if want == refused {
					if err == nil {
						t.Errorf("%s, %s: connected by %v", c.policy, name, r)
					}
					continue
				}
				if err != nil || !strings.HasPrefix(r.String(), want+": ") || r.Why == "" {
					t.Errorf("%s, %s: %v, %v; want the %s", c.policy, name, r, err, want)
					continue
				}
				conn.Close()
				if planned, err := tr.Route(n); err != nil || planned.Onion != r.Onion {
					t.Errorf("%s, %s: planned %v, %v", c.policy, name, planned, err)
				}
			}
		}
	})
}

// TestOnlyOnionFails: when the onion is away, only-onion fails. It dials no address.
func TestOnlyOnionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tr := w.transport(t, devp2p.Config{DialTimeout: 30 * time.Second})
		w.nw.SetAway(w.onion, true)
		if _, _, err := tr.DialRoute(t.Context(), w.both); !errors.Is(err, onionsim.ErrAway) {
			t.Error(err)
		}
		w.nw.SetAway(w.onion, false)
		w.nw.SetHang(w.onion, true)
		began := time.Now()
		_, _, err := tr.DialRoute(t.Context(), w.both)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 30*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if w.dials != 0 {
			t.Errorf("%d dials of addresses", w.dials)
		}
		if m := tr.Measured(w.both.ID(), true); m.Failures != 1 {
			t.Errorf("%+v", m)
		}
	})
}

// TestFallback: prefer-onion takes the address at the time that is stated, or at once
// when the onion fails.
func TestFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tr := w.transport(t, devp2p.Config{Policy: devp2p.PreferOnion})
		w.nw.SetHang(w.onion, true)
		began := time.Now()
		c, r, err := tr.DialRoute(t.Context(), w.both)
		if err != nil || r.Onion || time.Since(began) != devp2p.DefaultFallbackAfter {
			t.Fatalf("after %v: %v, %v", time.Since(began), r, err)
		}
		c.Close()
		if !strings.Contains(r.Why, "did not answer within 20s") {
			t.Error(r)
		}
		w.nw.SetHang(w.onion, false)
		w.nw.SetAway(w.onion, true)
		began = time.Now()
		if _, r, err := tr.DialRoute(t.Context(), w.both); err != nil || r.Onion || time.Since(began) != 0 || !strings.Contains(r.Why, "away") {
			t.Errorf("after %v: %v, %v", time.Since(began), r, err)
		}
		w.deny = &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, Err: errors.New("refused")}
		_, _, err = tr.DialRoute(t.Context(), w.both)
		if err == nil || !errors.Is(err, onionsim.ErrAway) || strings.Contains(err.Error(), "192.0.2.1") {
			t.Error("both ways failed:", err)
		}
	})
}

// TestIsolation: peers have circuits of their own if that is wanted, and a private dial
// always does.
func TestIsolation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, isolate := range []bool{false, true} {
			before := len(w.nw.Dials())
			tr := w.transport(t, devp2p.Config{IsolatePeers: isolate})
			for _, n := range []*enode.Node{w.both, w.only, w.only} {
				if _, err := tr.Dial(t.Context(), n); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				c, err := tr.DialPrivate(t.Context(), w.only)
				if err != nil {
					t.Fatal(err)
				}
				c.Close()
			}
			k := w.nw.Dials()[before:]
			if isolate && (k[0] == k[1] || k[1] != k[2] || k[0] == "") || !isolate && (k[0] != "" || k[1] != "" || k[2] != "") {
				t.Errorf("isolate %v: %q", isolate, k)
			}
			if k[3] == k[4] || k[3] == k[1] || k[3] == "" {
				t.Errorf("private: %q", k[3:])
			}
			if _, err := tr.DialPrivate(t.Context(), w.clear); !errors.Is(err, devp2p.ErrNoOnion) {
				t.Errorf("a private dial without an onion: %v", err)
			}
		}
	})
}

// TestTransportClose: a dial that waits ends, and listeners are closed.
func TestTransportClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tr := w.transport(t, devp2p.Config{})
		w.nw.SetHang(w.onion, true)
		result := make(chan error, 1)
		go func() {
			_, err := tr.Dial(t.Context(), w.only)
			result <- err
		}()
		l, err := tr.Listen(t.Context(), "", 1)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		if err := <-result; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := tr.Listen(t.Context(), "", 1); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestConfig: what cannot work is refused.
func TestConfig(t *testing.T) {
	nw := onionsim.New()
	for _, cfg := range []devp2p.Config{
		{}, {Policy: "x", Onions: nw.Node()}, {Onions: nw.Node(), FallbackAfter: -1}, {Policy: devp2p.Adaptive},
	} {
		if _, err := devp2p.New(cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
	tr, err := devp2p.New(devp2p.Config{Policy: devp2p.Clearnet})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Listen(t.Context(), "", 1); err == nil {
		t.Error("policy clearnet hosts an onion")
	}
}

// TestAllowed: own transactions never leave onions.
func TestAllowed(t *testing.T) {
	w := newWorld(t)
	for _, p := range devp2p.Policies {
		tr := w.transport(t, devp2p.Config{Policy: p})
		if tr.Allowed(devp2p.OwnTransactions, false) {
			t.Errorf("%s: own transactions may leave by an address", p)
		}
		if !tr.Allowed(devp2p.OwnTransactions, true) || tr.Allowed("x", true) {
			t.Errorf("%s: by the onion", p)
		}
		if got := tr.Allowed(devp2p.Bodies, false); got != (p != devp2p.OnlyOnion) {
			t.Errorf("%s: bodies by an address: %v", p, got)
		}
	}
}
