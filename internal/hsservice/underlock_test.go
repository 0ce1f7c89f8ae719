package hsservice

import (
	"testing"

	"github.com/chivenet/chive/internal/simnet"
)

// TestClosedUnderMutex: the service may close a circuit while it holds its mutex, although what
// hears of the end takes it, and may follow one that has closed.
func TestClosedUnderMutex(t *testing.T) {
	r := simnet.New(t, simnet.Options{})
	s, _ := hosted(t, nowhere{})
	c := r.Circuit(t)
	if !s.addClient(c, new(clientCircuit)) {
		t.Fatal("the service is closed")
	}
	s.mu.Lock()
	s.removeClientAtEnd(c)
	s.destroy(c)
	s.removeClientAtEnd(c)
	if s.clients[c] == nil {
		t.Error("the end was heard of under the mutex")
	}
	s.mu.Unlock()
	r.Clients.WaitEnds()
	if s.clientOn(c) != nil {
		t.Error("the circuit has closed, and is known")
	}
}
