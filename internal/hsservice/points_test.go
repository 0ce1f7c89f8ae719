package hsservice

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/path"
)

// quiet is a service with one descriptor whose goroutines see no directory, so that a test alone calls
// what tend would.
func quiet(t *testing.T) *Service {
	t.Helper()
	return quietOn(t, nowhere{})
}

func quietOn(t *testing.T, n Network) *Service {
	t.Helper()
	s, _ := hosted(t, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.points, s.descs = nil, []*descriptor{new(descriptor)}
	return s
}

// up adds an established point of the first descriptor.
func up(t *testing.T, s *Service, relay byte, now time.Time) *point {
	t.Helper()
	p, err := newPoint(now, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.target = linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{relay}}}
	p.of, p.inc, p.circ = s.descs[0], s.inc, new(circuit.Circuit)
	s.points = append(s.points, p)
	return p
}

// down takes the circuits away, which are none.
func down(s *Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.points {
		p.circ = nil
	}
}

func named(s *Service, p *point) bool {
	return slices.ContainsFunc(s.introPointsLocked(p.of, time.Now()), func(o netdoc.HSIntroPoint) bool { return o.Auth == p.id() })
}

// An old point is in the descriptor until its successor is there, and stays for a
// while after the descriptor without it is out.
func TestRotation(t *testing.T) {
	for why, age := range map[string]func(p *point, now time.Time) time.Time{
		"age":   func(p *point, now time.Time) time.Time { return p.expires },
		"count": func(p *point, now time.Time) time.Time { p.introsLeft = 0; return now },
	} {
		s, now := quiet(t), time.Now()
		defer down(s)
		s.mu.Lock()
		var all []*point
		for i := range byte(3) {
			p := up(t, s, i+1, now)
			p.expires = now.Add(48 * time.Hour)
			all = append(all, p)
		}
		old := all[0]
		old.expires = now.Add(24 * time.Hour)
		s.notBefore = now.Add(1000 * time.Hour) // the test launches by itself
		s.tendPointsLocked(now)
		if old.replaced || len(s.points) != 3 {
			t.Errorf("%s: a good point is replaced", why)
		}
		now = age(old, now)
		if s.tendPointsLocked(now); old.replaced || !named(s, old) {
			t.Errorf("%s: an old point is gone before there is another", why)
		}
		up(t, s, 9, now).expires = now.Add(48 * time.Hour)
		if s.tendPointsLocked(now); !old.replaced || named(s, old) || !slices.Contains(s.points, old) {
			t.Errorf("%s: replaced %v, in the descriptor %v, kept %v", why, old.replaced, named(s, old), slices.Contains(s.points, old))
		}
		now = now.Add(24 * time.Hour)
		if s.tendPointsLocked(now); !slices.Contains(s.points, old) {
			t.Errorf("%s: it is gone, and the descriptor names it still", why)
		}
		old.outSince = now
		if s.tendPointsLocked(now.Add(retirement - time.Second)); !slices.Contains(s.points, old) {
			t.Errorf("%s: it went at once", why)
		}
		old.circ = nil // there is none to close
		if s.tendPointsLocked(now.Add(retirement)); slices.Contains(s.points, old) {
			t.Errorf("%s: it stays for ever", why)
		}
		s.mu.Unlock()
		down(s)
	}
}

// However often circuits fail, few are begun. There are more for more points: a service that has
// just begun must be able to replace them all, when a client is removed.
func TestLaunchBudget(t *testing.T) {
	for points, want := range map[int]int{1: 28, DefaultPoints: 28, MaxPoints: 164} { // from three on, as C tor
		s, now := quiet(t), time.Now()
		if err := s.Reload(Live{IntroductionPoints: points}); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.extra = extraPoints
		n := 0
		for range 1000 {
			if s.mayLaunchLocked(now) {
				n++
			}
		}
		if n != want {
			t.Errorf("%d points: %d launches", points, n)
		}
		if now = now.Add(launchWindow); !s.mayLaunchLocked(now) {
			t.Errorf("%d points: no launch ever again", points)
		}
		s.mu.Unlock()
	}
}

// A point whose circuit is lost is built again with its keys, some times; it stays in
// the descriptor meanwhile.
func TestLostPoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan linkspec.Target, 2*pointRetries)
		k, err := NewKey()
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Config{Key: k, Network: silent{nowhere{calls: calls}}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.mu.Lock()
		s.descs = []*descriptor{new(descriptor)}
		p := up(t, s, 1, time.Now())
		gone := p.circ
		s.mu.Unlock()
		s.pointEnded(p, gone, fault.New(fault.Network, "the relay went"))
		for n := range pointRetries {
			synctest.Wait()
			s.pointEnded(p, gone, fault.New(fault.Network, "of a circuit that is no more"))
			if len(calls) != n+1 {
				t.Errorf("%d circuits were begun, after %d losses", len(calls), n+1)
			}
			s.mu.Lock()
			if !named(s, p) {
				t.Errorf("it is not in the descriptor after %d losses", n+1)
			}
			s.mu.Unlock()
			time.Sleep(pointTimeout) // virtual: the relay does not answer
		}
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if slices.Contains(s.points, p) || len(calls) != pointRetries {
			t.Errorf("a point that cannot be built stays, after %d circuits", len(calls))
		}
	})
}

// hostedOn is a service on a client's circuits.
func hostedOn(t *testing.T, c Network) *Service {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Key: k, Network: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

const patience = 30 * time.Second

// slow is a client whose circuits take forever to build.
type slow struct {
	nowhere
	begun, given chan struct{}
}

func (n slow) Build(ctx context.Context, _ path.Spec) (*circuit.Circuit, uint64, error) {
	n.begun <- struct{}{}
	<-ctx.Done()
	n.given <- struct{}{}
	return nil, 0, context.Cause(ctx)
}

// TestExtraPoints: at the start, more points are launched than wanted; when enough
// stand, the other launches end.
func TestExtraPoints(t *testing.T) {
	n := slow{begun: make(chan struct{}, 100), given: make(chan struct{}, 100)}
	s, now := hostedOn(t, n), time.Now()
	s.mu.Lock()
	s.descs = []*descriptor{new(descriptor)}
	s.extra = extraPoints
	s.tendPointsLocked(now)
	all := slices.Clone(s.points)
	s.mu.Unlock()
	if len(all) != DefaultPoints+extraPoints {
		t.Fatalf("%d launches", len(all))
	}
	for range all {
		<-n.begun
	}
	stand := func(i int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		p := all[i]
		p.building, p.circ, p.target.RSA = false, new(circuit.Circuit), ident.RSAID{byte(i + 1)}
		s.dropSurplusLocked(all[0].of, now)
		s.tendPointsLocked(now)
	}
	stand(4)
	stand(0)
	if len(s.Status().Points) != 2 || s.Status().Launching != 3 {
		t.Errorf("%+v", s.Status())
	}
	stand(2)
	for range 2 {
		select {
		case <-n.given:
		case <-time.After(patience):
			t.Fatal("a launch that is not needed goes on")
		}
	}
	if st := s.Status(); len(st.Points) != DefaultPoints || st.Launching != 0 {
		t.Errorf("%+v", st)
	}
	down(s)
}
