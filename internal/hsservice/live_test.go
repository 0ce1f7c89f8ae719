package hsservice

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
)

func someClient(t *testing.T) ident.X25519Key {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	pub, _, err := NewClient(k.Address())
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseClient(pub)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReloadClients: other clients make other descriptors; one that was removed makes
// other introduction points, too, and the old ones end as soon as no descriptor names
// them.
func TestReloadClients(t *testing.T) {
	alice, bob := someClient(t), someClient(t)
	for name, c := range map[string]struct {
		before, after   []ident.X25519Key
		content, revoke bool
	}{
		"the same":             {[]ident.X25519Key{alice, bob}, []ident.X25519Key{bob, alice}, false, false},
		"nobody":               {nil, nil, false, false},
		"one more":             {[]ident.X25519Key{alice}, []ident.X25519Key{alice, bob}, true, false},
		"one less":             {[]ident.X25519Key{alice, bob}, []ident.X25519Key{alice}, true, true},
		"no longer for all":    {nil, []ident.X25519Key{alice}, true, true},
		"for all from now on":  {[]ident.X25519Key{alice}, nil, true, false},
		"another in his place": {[]ident.X25519Key{alice}, []ident.X25519Key{bob}, true, true},
	} {
		s, now := quiet(t), time.Now()
		if err := s.Reload(Live{Clients: c.before}); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		if err := s.setPeriodsLocked([2]period{{Period: somePeriod()}, {Period: somePeriod().Next()}}); err != nil {
			t.Fatal(err)
		}
		old := up(t, s, 1, now)
		before := contentOf(s.descs[0], nil, nil, "")
		s.mu.Unlock()
		if err := s.Reload(Live{Clients: c.after, IntroductionPoints: 1}); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.notBefore = now.Add(time.Hour) // the test launches by itself
		if changed := contentOf(s.descs[0], nil, nil, "") != before; changed != c.content {
			t.Errorf("%s: another descriptor: %v", name, changed)
		}
		if old.old(now) != c.revoke {
			t.Errorf("%s: another introduction point: %v", name, old.old(now))
		}
		if c.revoke {
			up(t, s, 2, now)
			s.tendPointsLocked(now)
			if !old.replaced || !slices.Contains(s.points, old) {
				t.Errorf("%s: replaced %v", name, old.replaced)
			}
			old.circ = nil // there is none to close
			old.outSince = now
			if s.tendPointsLocked(now); slices.Contains(s.points, old) {
				t.Errorf("%s: the old point stays", name)
			}
		}
		s.mu.Unlock()
		down(s)
	}
}

// TestReloadBackend: a frontend that removes a client cannot replace its backends'
// introduction points, and says so; a backend replaces them when it is told to reload.
func TestReloadBackend(t *testing.T) {
	alice, bob := someClient(t), someClient(t)
	var log bytes.Buffer
	front, err := New(Config{Key: key(t), Network: nowhere{}, Backends: []ident.Ed25519ID{key(t).ID()}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Live: Live{Clients: []ident.X25519Key{alice, bob}}})
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	const word = "know" // "knows the introduction points of the backends"
	for _, c := range []struct {
		clients []ident.X25519Key
		warned  bool
	}{{[]ident.X25519Key{alice, bob, someClient(t)}, false}, {[]ident.X25519Key{alice}, true}} {
		log.Reset()
		if err := front.Reload(Live{Clients: c.clients}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), word); got != c.warned {
			t.Errorf("%d clients: %q", len(c.clients), log.String())
		}
	}
	for _, masters := range [][]ident.Ed25519ID{nil, {key(t).ID()}} {
		s, now := quiet(t), time.Now()
		s.mu.Lock()
		s.cfg.Masters = masters
		p := up(t, s, 1, now)
		s.notBefore = now.Add(time.Hour) // the test launches nothing
		s.mu.Unlock()
		if err := s.Reload(Live{IntroductionPoints: 1}); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		if p.old(now) != (masters != nil) || !p.revoked.IsZero() {
			t.Errorf("with %d masters: replaced %v, at once %v", len(masters), p.old(now), !p.revoked.IsZero())
		}
		s.mu.Unlock()
		down(s)
	}
}

func somePeriod() hscrypto.Period {
	return hscrypto.PeriodAt(time.Now(), hscrypto.DefaultPeriod, 12*time.Hour)
}

// TestReloadRefused: a setting that cannot be leaves everything as it is.
func TestReloadRefused(t *testing.T) {
	s, _ := hosted(t, nowhere{})
	if err := s.Reload(Live{MaxStreams: 5}); err != nil {
		t.Fatal(err)
	}
	for _, l := range []Live{{IntroductionPoints: MaxPoints + 1}, {MaxStreams: -1}, {IntroLimit: &cell.IntroDoS{RatePerSec: 2, BurstPerSec: 1}}} {
		if err := s.Reload(l); !fault.Is(err, fault.Config) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if l := s.live.Load(); l.MaxStreams != 5 || l.IntroductionPoints != DefaultPoints {
		t.Errorf("%+v", l)
	}
	s.Close()
	if err := s.Reload(Live{}); !fault.Is(err, fault.Closed) {
		t.Error(err)
	}
}

// TestFewerPoints: when fewer introduction points are wanted, the rest are replaced.
func TestFewerPoints(t *testing.T) {
	s, now := quiet(t), time.Now()
	defer down(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range byte(5) {
		up(t, s, i+1, now)
	}
	s.tendPointsLocked(now)
	if n := s.establishedLocked(s.descs[0]); n != DefaultPoints {
		t.Errorf("%d points are left", n)
	}
}

// TestStatus: what there is, and what happened, can be read while the service runs.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, now := quiet(t), time.Now()
		if err := s.Reload(Live{Clients: []ident.X25519Key{someClient(t)}}); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		up(t, s, 1, now)
		up(t, s, 2, now).replaced = true
		p, err := newPoint(now, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.of, p.building = s.descs[0], true
		s.points = append(s.points, p)
		s.mu.Unlock()
		if err := s.queueIntroduce2(p, nil, []byte("nonsense")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		st := s.Status()
		if len(st.Points) != 1 || st.Points[0] != (ident.RSAID{1}) || st.Launching != 1 || st.Clients != 1 || st.Introductions != 1 || st.Rejected != 1 || st.Published {
			t.Errorf("%+v", st)
		}
		down(s)
	})
}
