package hsservice

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/simnet"
)

// TestLostBeforeItStood: a circuit to an introduction point that ends just after the relay's
// answer counts as lost. Else nothing would ever take its point's place.
func TestLostBeforeItStood(t *testing.T) {
	r := simnet.New(t, simnet.Options{})
	m := channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)
	t.Cleanup(m.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ch, err := m.Get(ctx, r.Target)
	if err != nil {
		t.Fatal(err)
	}
	c, err := circuit.Create(ctx, &circuit.Env{Now: time.Now}, ch, r.Target, circuit.HopOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close(cell.DestroyNone, errors.New("the relay has no room"))

	s, p := hosted(t, nowhere{})
	s.mu.Lock()
	p.building = true
	s.mu.Unlock()
	s.stand(p, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.retries == 0 {
		t.Errorf("nothing is done about it: circuit %v, building %v", p.circ != nil, p.building)
	}
}
