package hsservice

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
)

// TestUnlisted: an introduction point whose relay has left the consensus is replaced, also if
// its circuit stands. The others stay.
func TestUnlisted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShelf(t)
		k, err := NewKey()
		if err != nil {
			t.Fatal(err)
		}
		s := h.join(t, Config{Key: k}, 3)
		defer kill(s)
		s.mu.Lock()
		gone := s.points[2]
		gone.target = relay(t)
		s.mu.Unlock()
		s.kick()
		time.Sleep(time.Minute) // virtual
		s.mu.Lock()
		for i, p := range s.points[:3] {
			if old := p.old(time.Now()); old != (i == 2) {
				t.Errorf("point %d is to be replaced: %v", i, old)
			}
		}
		if !named(s, gone) {
			t.Error("it is gone before there is another")
		}
		p, err := newPoint(time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		p.of, p.target, p.inc, p.circ = gone.of, s.points[0].target, s.inc, new(circuit.Circuit)
		s.points = append(s.points, p)
		s.mu.Unlock()
		s.kick()
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if named(s, gone) {
			t.Error("it is in the descriptor though there is another")
		}
	})
}
