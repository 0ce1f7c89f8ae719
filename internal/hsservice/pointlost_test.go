package hsservice

import (
	"errors"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/simnet"
)

// TestLostBeforeItStood: a circuit to an introduction point that ends just after the relay's
// answer counts as lost. Else nothing would ever take its point's place.
func TestLostBeforeItStood(t *testing.T) {
	r := simnet.New(t, simnet.Options{})
	c := r.Circuit(t)
	c.Close(cell.DestroyNone, errors.New("the relay has no room"))

	s, p := hosted(t, nowhere{})
	s.mu.Lock()
	p.building = true
	s.mu.Unlock()
	s.pointStands(p, c)
	r.Clients.WaitEnds()
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.retries == 0 {
		t.Errorf("nothing is done about it: circuit %v, building %v", p.circ != nil, p.building)
	}
}
