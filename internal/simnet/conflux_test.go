package simnet_test

import (
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

var vegas = circuit.HopOptions{Congestion: true}

// linked returns two circuits to one exit as a set.
func linked(t *testing.T) (first, second *circuit.Circuit, relays []*simnet.Relay) {
	t.Helper()
	a, b, exit := simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{})
	m := newClient(t)
	first, second = build(t, m, vegas, a, exit), build(t, m, vegas, b, exit)
	set, err := circuit.LinkConflux(deadline(t), []*circuit.Circuit{first, second}, cell.ConfluxHighThroughput)
	if err != nil {
		t.Fatal(err)
	}
	if legs := set.Legs(); len(legs) != 2 || first.Last().Conflux() != set {
		t.Fatal("the legs are not linked")
	}
	return first, second, []*simnet.Relay{a, b, exit}
}

// TestConflux: streams over two legs arrive whole, in both directions at once,
// and both legs carry cells.
func TestConflux(t *testing.T) {
	first, _, relays := linked(t)
	done := make(chan struct{})
	for range 8 {
		go func() { transfer(t, first); done <- struct{}{} }()
	}
	for range 8 {
		<-done
	}
	for i, r := range relays[:2] {
		if n := r.Stats.CellsIn.Load(); n < 500 {
			t.Errorf("leg %d carried %d cells", i, n)
		}
	}
}

// TestConfluxLegDies: the set ends as a whole, its streams with a cause.
func TestConfluxLegDies(t *testing.T) {
	first, second, relays := linked(t)
	s, err := stream.Dial(deadline(t), first.Last(), "echo", 80)
	if err != nil {
		t.Fatal(err)
	}
	relays[1].Stop()
	<-first.Done()
	<-second.Done()
	// The exit may be the first to see it, and end the other leg: then the client
	// hears of that.
	if _, err := s.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "leg") && !strings.Contains(err.Error(), "truncated") {
		t.Fatal(err)
	}
}

// TestConfluxRefuses: what a client must not do with sets.
func TestConfluxRefuses(t *testing.T) {
	var link cell.ConfluxLink
	for name, c := range map[string]struct {
		o  circuit.HopOptions
		do func(h *circuit.Hop) error
	}{
		"no congestion control": {circuit.HopOptions{}, func(h *circuit.Hop) error { return h.Send(cell.RelayConfluxLink, 0, link.Append(nil)) }},
		"twice": {vegas, func(h *circuit.Hop) error {
			if err := h.Send(cell.RelayConfluxLink, 0, link.Append(nil)); err != nil {
				return err
			}
			return h.Send(cell.RelayConfluxLink, 0, link.Append(nil))
		}},
		"short":     {vegas, func(h *circuit.Hop) error { return h.Send(cell.RelayConfluxLink, 0, []byte{1, 2}) }},
		"ack first": {vegas, func(h *circuit.Hop) error { return h.Send(cell.RelayConfluxLinkedAck, 0, nil) }},
		"switch":    {vegas, func(h *circuit.Hop) error { return h.Send(cell.RelayConfluxSwitch, 0, []byte{0, 0, 0, 1}) }},
		"linked":    {vegas, func(h *circuit.Hop) error { return h.Send(cell.RelayConfluxLinked, 0, link.Append(nil)) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := simnet.New(t, simnet.Options{})
			circ := build(t, newClient(t), c.o, r)
			if err := c.do(circ.Last()); err != nil {
				t.Fatal(err)
			}
			select {
			case <-circ.Done():
			case <-deadline(t).Done():
				t.Fatal("the circuit lives")
			}
		})
	}
}
