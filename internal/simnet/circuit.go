package simnet

import (
	"context"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
)

// Circuit returns a client's circuit of one hop to the relay, over a link of its own on
// loopback. The test's cleanup closes the link.
func (r *Relay) Circuit(t testing.TB) *circuit.Circuit {
	t.Helper()
	m := channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, Dial)
	t.Cleanup(m.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ch, err := m.Get(ctx, r.Target)
	check(t, err)
	c, err := circuit.Create(ctx, r.Clients, ch, r.Target, circuit.HopOptions{})
	check(t, err)
	return c
}
