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
	if !s.joined(c, new(rendezvous)) {
		t.Fatal("the service is closed")
	}
	s.mu.Lock()
	s.follow(c)
	s.destroy(c)
	s.follow(c)
	if s.rends[c] == nil {
		t.Error("the end was heard of under the mutex")
	}
	s.mu.Unlock()
	r.Clients.WaitEnds()
	if s.rendezvousOn(c) != nil {
		t.Error("the circuit has closed, and is known")
	}
}
