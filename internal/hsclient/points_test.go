package hsclient

import (
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
)

// TestPoints: which introduction points are tried.
func TestPoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		f := &fakeNet{refused: map[ident.RSAID]bool{}}
		c := New(Config{Network: f, Log: slog.New(slog.DiscardHandler)})
		defer c.Close()
		p := &s.inner.Points[0]
		desc := &cached{inner: &s.inner}
		usable := func(want int, wantLate bool) {
			t.Helper()
			if got, late := c.history(s.id).usable(desc); len(got) != want || want == 0 && late != wantLate {
				t.Errorf("%d points, late %v", len(got), late)
			}
		}
		usable(1, false)
		for n := range maxUnreachable {
			usable(1, false)
			if _, err := c.reachIntroduction(t.Context(), c.history(s.id), p); err != errNoCircuit {
				t.Error(n, err)
			}
		}
		usable(0, false)
		time.Sleep(forgive)
		usable(1, false)
		c.history(s.id).note(p, func(s *pointState) { s.late = true })
		usable(0, true)
		if _, _, _, err := c.reach(t.Context(), c.history(s.id), desc, false); !errors.Is(err, ErrIntroTimeout) || !fault.Is(err, fault.Timeout) {
			t.Error(err)
		}
		c.NewIdentity()
		usable(1, false)
		f.refused[ident.RSAID{1}] = true
		if _, _, _, err := c.reach(t.Context(), c.history(s.id), desc, false); !errors.Is(err, ErrIntroduction) || !fault.Is(err, fault.Network) {
			t.Error(err)
		}
		usable(0, false)
		if n := len(c.history(s.id).points); n != 1 {
			t.Error(n)
		}
	})
}

// TestPrivatePoints: nobody can send this client's last relay to an address of its
// own network.
func TestPrivatePoints(t *testing.T) {
	c := newClient(t, &fakeNet{})
	point := func(addrs ...string) *netdoc.HSIntroPoint {
		at := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{1}}}
		for _, a := range addrs {
			at.Addrs = append(at.Addrs, netip.MustParseAddrPort(a))
		}
		return &netdoc.HSIntroPoint{Specs: at.Specs(), Onion: ident.X25519Key{1}}
	}
	if at, err := c.target(point("8.8.8.8:1")); err != nil || at.Ntor != (ident.X25519Key{1}) {
		t.Error(at, err)
	}
	for _, p := range []*netdoc.HSIntroPoint{point("127.0.0.1:1"), point("10.0.0.1:9001"), point("8.8.8.8:1", "[fe80::1]:1")} {
		if _, err := c.target(p); !fault.Is(err, fault.Refused) {
			t.Error(err)
		}
	}
	if _, err := c.target(point()); !fault.Is(err, fault.Protocol) {
		t.Error(err)
	}
	c.cfg.Private = true
	if _, err := c.target(point("127.0.0.1:1")); err != nil {
		t.Error(err)
	}
}
