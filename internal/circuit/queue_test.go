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
	start, over := make(chan struct{}), make(chan int, 1)
	exit := simnet.New(t, simnet.Options{Serve: func(s *stream.Stream) {
		<-start
		n := 0
		for s.Hop().Send(cell.RelayDrop, 0, nil) == nil { // no window counts it
			n++
		}
		over <- n
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
	case n := <-over:
		t.Logf("%d cells were sent", n)
	case <-deadline(t).Done():
		t.Error("the circuit lives")
	}
	gate.Unlock()
	<-c.Done()
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), cell.DestroyResourceLimit.String()) {
		t.Error(err)
	}
}
