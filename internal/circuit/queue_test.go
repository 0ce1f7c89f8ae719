package circuit_test

import (
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// TestQueueLimit: an exit that sends without end to a client that does not read
// costs the relay between them no more than the cells that may wait, and then
// the circuit.
func TestQueueLimit(t *testing.T) {
	start, over := make(chan struct{}), make(chan error, 1)
	exit := simnet.New(t, simnet.Options{Serve: func(s *stream.Stream) {
		<-start
		for {
			if err := s.Hop().Send(cell.RelayDrop, 0, nil); err != nil { // no window counts it
				break
			}
		}
		_, err := s.Read(make([]byte, 1)) // the cause
		over <- err
	}})
	queues := circuit.NewQueueLimits()
	queues.In.Store(circuit.MinQueue)
	guard := simnet.New(t, simnet.Options{Queues: queues})
	m, gate := gatedClient(t)
	c := build(t, m, circuit.HopOptions{}, guard, exit)
	if _, err := stream.Dial(deadline(t), c.Last(), "flood", 80); err != nil {
		t.Fatal(err)
	}
	gate.Lock()
	close(start)
	select {
	case err := <-over: // the guard told the exit; the client may mind the DROP cells first
		if !strings.Contains(err.Error(), cell.DestroyResourceLimit.String()) {
			t.Error(err)
		}
	case <-deadline(t).Done():
		t.Error("the circuit lives")
	}
	gate.Unlock()
	<-c.Done()
}
