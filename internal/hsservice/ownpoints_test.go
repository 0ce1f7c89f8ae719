package hsservice

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/path"
)

// two is quiet with the descriptors of two periods.
func two(t *testing.T) *Service {
	t.Helper()
	return twoOn(t, nowhere{})
}

func twoOn(t *testing.T, n Network) *Service {
	t.Helper()
	s := quietOn(t, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.descs = nil
	if err := s.setPeriodsLocked([2]period{{Period: somePeriod()}, {Period: somePeriod().Next()}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// upOf is up for a descriptor.
func upOf(t *testing.T, s *Service, x *descriptor, relay byte, now time.Time) *point {
	t.Helper()
	p := up(t, s, relay, now)
	p.of = x
	return p
}

// of counts the points of a descriptor.
func (s *Service) of(x *descriptor) (n int) {
	for _, p := range s.points {
		if p.of == x {
			n++
		}
	}
	return n
}

// TestOwnPoints: each descriptor has points of its own, names no others, and begins as many circuits as C tor's. Those of the
// other one neither count nor are in the way.
func TestOwnPoints(t *testing.T) {
	asked := make(chan path.Spec, 100)
	s, now := twoOn(t, specs{nowhere{}, asked}), time.Now()
	defer down(s)
	s.mu.Lock()
	s.extra = extraPoints
	a, b := s.descs[0], s.descs[1]
	var mine []*point
	for i := range byte(2) {
		mine = append(mine, upOf(t, s, a, i+1, now))
	}
	s.tendPointsLocked(now)
	if s.of(a) != DefaultPoints || s.of(b) != DefaultPoints+extraPoints {
		t.Errorf("%d and %d points", s.of(a), s.of(b))
	}
	s.mu.Unlock()
	with, without := 0, 0
	for range 1 + DefaultPoints + extraPoints {
		switch spec := <-asked; len(spec.ExcludeExit) {
		case 0:
			without++
		case len(mine):
			with++
		default:
			t.Errorf("excluded: %v", spec.ExcludeExit)
		}
	}
	if with != 1 || without != DefaultPoints+extraPoints {
		t.Errorf("%d circuits go around the points of the first descriptor, %d do not", with, without)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	other := upOf(t, s, b, 1, now)
	if other.rivals(mine[0], now) || mine[0].rivals(other, now) || !mine[0].rivals(mine[1], now) {
		t.Error("two points at one relay: only those of one descriptor may not be")
	}
	if x := s.introPointsLocked(a, now); len(x) != 2 || x[0].Auth != mine[0].id() || x[1].Auth != mine[1].id() {
		t.Errorf("the first descriptor names %d points", len(x))
	}
	if x := s.introPointsLocked(b, now); len(x) != 1 || x[0].Auth != other.id() {
		t.Errorf("the second descriptor names %d points", len(x))
	}
}

// TestPointsRotate: when a period has ended, the points of its descriptor end at once, those of the next one go on in it, and
// the new one gets its own.
func TestPointsRotate(t *testing.T) {
	s, now := two(t), time.Now()
	defer down(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	var closed []*circuit.Circuit
	s.destroy = func(c *circuit.Circuit) { closed = append(closed, c) }
	old, next := upOf(t, s, s.descs[0], 1, now), upOf(t, s, s.descs[1], 2, now)
	ended := false
	begun := upOf(t, s, s.descs[0], 3, now)
	begun.circ, begun.building, begun.cancel = nil, true, func() { ended = true }
	kept := s.descs[1]
	if err := s.setPeriodsLocked([2]period{{Period: somePeriod().Next()}, {Period: somePeriod().Next().Next()}}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.points, []*point{next}) || !slices.Equal(closed, []*circuit.Circuit{old.circ}) || !ended {
		t.Errorf("%d points stay, %d circuits were closed; a launch ended: %v", len(s.points), len(closed), ended)
	}
	if s.descs[0] != kept || next.of != kept {
		t.Error("a descriptor that goes on was made anew")
	}
	s.notBefore = now.Add(time.Hour)
	s.extra = extraPoints
	if s.tendPointsLocked(now); s.of(s.descs[1]) != 0 {
		t.Error("the new descriptor has points of another")
	}
	s.notBefore = now
	if s.tendPointsLocked(now); s.of(s.descs[1]) != DefaultPoints+extraPoints || s.of(kept) != DefaultPoints {
		t.Errorf("%d points of the new descriptor, %d of the other", s.of(s.descs[1]), s.of(kept))
	}
}

// TestOutByItself: a point is done with when its own descriptor is out without it.
func TestOutByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := newShelf(t), key(t)
		s := h.join(t, Config{Key: k}, 3)
		defer kill(s)
		time.Sleep(time.Minute)
		s.mu.Lock()
		var old [2]*point
		for i, x := range s.descs {
			p := upOf(t, s, x, 0, time.Now())
			p.target, p.circ = s.points[0].target, s.points[0].circ
			p.replaced, old[i] = true, p
		}
		s.descs[0].content = [32]byte{} // it alone goes out again
		s.mu.Unlock()
		s.kick()
		time.Sleep(time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if old[0].outSince.IsZero() || !old[1].outSince.IsZero() {
			t.Errorf("out: %v, and of the descriptor that was not uploaded: %v", !old[0].outSince.IsZero(), !old[1].outSince.IsZero())
		}
	})
}

// TestWaitsForAll: as C tor's, a descriptor of a service that looks like it waits for all its points, but not for ever, and
// not for relays that are not there; one of another service waits a short time once. The other descriptor goes out meanwhile.
func TestWaitsForAll(t *testing.T) {
	for _, common := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := two(t)
			defer down(s)
			if common {
				s.cfg.Rest = func(*circuit.Circuit, func()) {}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			stand := func(x *descriptor, n byte) {
				s.points = slices.DeleteFunc(s.points, func(p *point) bool { return p.of == x })
				for i := range n {
					upOf(t, s, x, i+1, time.Now())
				}
				if x.since.IsZero() {
					x.since = time.Now()
				}
				s.notBefore = time.Now().Add(24 * time.Hour) // nothing is launched
				s.tendPointsLocked(time.Now())
			}
			a, b := s.descs[0], s.descs[1]
			stand(a, 3)
			stand(b, 2)
			after := func(x *descriptor, d time.Duration, want bool) {
				t.Helper()
				if own, wait, ok := s.readyLocked(x, time.Now().Add(d)); ok != want || ok == (len(own) == 0) || !ok && wait <= 0 {
					t.Errorf("common %v, after %v: %v, %d points, a wait of %v", common, d, ok, len(own), wait)
				}
			}
			after(a, 0, true)
			after(b, fewPoints-time.Second, false)
			after(b, fewPoints, !common)
			after(b, fewPointsCommon-time.Second, !common)
			after(b, fewPointsCommon, true)
			s.mu.Unlock()
			time.Sleep(time.Hour)
			s.mu.Lock()
			stand(a, 3)
			stand(a, 2) // one is lost later
			after(a, 0, !common)
			after(a, fewPointsCommon, true)
			stand(a, 0)
			after(a, time.Hour, false)
			lost := upOf(t, s, b, 9, time.Now())
			lost.circ, lost.target.RSA = nil, ident.RSAID{}
			stand(a, 2)
			s.mu.Unlock()
			s.pointEnded(lost, nil, fault.New(fault.Directory, "%w last relay", path.ErrNone))
			s.mu.Lock()
			after(a, 0, !common)
			if !b.lacks || a.lacks {
				t.Error("the descriptor that lacks relays is another one")
			}
			stand(b, 2)
			after(b, 0, true)
		})
	}
}

// TestSurplus: of the circuits that are launched, only as many ask their relays as points are wanted, none of them a relay
// that another one asks, and another one does when one of those is lost.
func TestSurplus(t *testing.T) {
	s, now := two(t), time.Now()
	defer down(s)
	begin := func(x *descriptor) *point {
		s.mu.Lock()
		defer s.mu.Unlock()
		p, err := newPoint(now, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.of, p.building = x, true
		s.points = append(s.points, p)
		return p
	}
	s.notBefore = now.Add(time.Hour) // the test launches by itself
	var launched []*point
	for range DefaultPoints + extraPoints {
		launched = append(launched, begin(s.descs[0]))
	}
	other, late := begin(s.descs[1]), launched[DefaultPoints+1]
	for i, p := range launched[:DefaultPoints+1] {
		if got := s.mayRegister(p, ident.RSAID{byte(i + 1)}); got != (i < DefaultPoints) {
			t.Errorf("circuit %d: %v", i, got)
		}
	}
	if !s.mayRegister(other, ident.RSAID{1}) {
		t.Error("the points of one descriptor count for the other")
	}
	s.pointEnded(launched[DefaultPoints], nil, errSurplus)
	if s.problem != nil {
		t.Errorf("a surplus circuit is a problem: %v", s.problem)
	}
	s.pointEnded(launched[0], nil, fault.New(fault.Refused, "no"))
	if double := begin(s.descs[0]); s.mayRegister(double, ident.RSAID{2}) {
		t.Error("two ask one relay")
	}
	if !s.mayRegister(late, ident.RSAID{1}) {
		t.Error("one was lost, and no other takes its place")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.of(s.descs[0]); n != DefaultPoints {
		t.Errorf("%d points", n)
	}
}
