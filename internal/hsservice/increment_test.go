package hsservice

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
)

// TestAnotherIncrement: when the consensus has another SENDME increment, clients that have an
// earlier descriptor do not meet a service that counts otherwise than they do.
func TestAnotherIncrement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShelf(t)
		k, err := NewKey()
		if err != nil {
			t.Fatal(err)
		}
		s := h.join(t, Config{Key: k}, 3)
		defer kill(s)
		closed := make(chan *circuit.Circuit, 10)
		s.mu.Lock()
		s.destroy = func(c *circuit.Circuit) { closed <- c }
		before := append([]*point(nil), s.points...)
		s.mu.Unlock()
		time.Sleep(time.Minute) // virtual
		h.expect(t, "at first", k, s)
		a := ask()
		a.exts = []cell.Ext{cell.CCRequest()}
		s.mu.Lock()
		a.subcred = s.subcreds[0]
		s.mu.Unlock()
		m, err := s.open(before[0], a.message(t, before[0]), time.Now())
		if err != nil || m.inc != int(h.inc.Load()) {
			t.Fatalf("%+v %v", m, err)
		}

		h.inc.Store(50)
		s.kick()
		time.Sleep(3 * time.Hour) // every descriptor was made again
		s.mu.Lock()
		now := pointSet(s.points)
		s.mu.Unlock()
		for i, p := range before {
			if now[p] {
				t.Errorf("point %d stands, where clients with a descriptor from before ask", i)
			}
		}
		if len(closed) != len(before) {
			t.Errorf("%d circuits were closed", len(closed))
		}
		a.cookie++ // one that has waited
		if m, err := s.open(before[0], a.message(t, before[0]), time.Now()); err != nil || m.inc != 31 {
			t.Errorf("%+v %v", m, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.inc != 50 {
			t.Errorf("the next descriptor tells %d", s.inc)
		}
	})
}

func pointSet(points []*point) map[*point]bool {
	set := map[*point]bool{}
	for _, p := range points {
		set[p] = true
	}
	return set
}
