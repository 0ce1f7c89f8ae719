package hsservice

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
)

// TestCommonTick: a service that looks like C tor's makes no descriptor in the second in which its first point was
// established, and another one makes it at once.
func TestCommonTick(t *testing.T) {
	for _, common := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, p := hosted(t, nowhere{})
			if common {
				s.cfg.Rest = func(*circuit.Circuit, func()) {}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.live.Store(&Live{IntroductionPoints: 1})
			s.points = []*point{p}
			p.circ = &circuit.Circuit{}
			defer func() { p.circ = nil }() // it is none that can be closed
			p.of.since = time.Now()
			for _, c := range []struct {
				after time.Duration
				ok    bool
			}{{0, !common}, {300 * time.Millisecond, !common}, {time.Second, true}, {time.Hour, true}} {
				_, wait, ok := s.readyLocked(p.of, p.of.since.Add(c.after))
				if ok != c.ok || !ok && wait != time.Second-c.after {
					t.Errorf("common %v, after %v: %v, and a wait of %v", common, c.after, ok, wait)
				}
			}
		})
	}
}
