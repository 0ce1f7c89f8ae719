package client

import (
	"testing"

	"github.com/chivenet/chive/internal/netdir"
)

// TestServiceAwaitsACircuit: a service that looks like C tor's begins when the client has had a circuit; another one as soon as one
// can be built.
func TestServiceAwaitsACircuit(t *testing.T) {
	for _, fast := range []bool{false, true} {
		c := isolated(t, &netdir.Network{Name: "t"}, refuse)
		c.cfg.Fast = fast
		n := serviceNetwork{c}
		if _, wait := n.Directory(); wait != c.poolReady {
			t.Error("it does not wait until circuits can be built")
		}
		close(c.poolReady)
		if _, wait := n.Directory(); (wait == c.firstCirc) == fast {
			t.Errorf("fast %v: it waits for the first circuit: %v", fast, !fast)
		}
		c.noteFirstCircuit()
		if _, wait := n.Directory(); wait == c.firstCirc {
			t.Error("it waits when there is a circuit")
		}
	}
}

// TestSecondsOfServices: who waits for a second goes on with the next, and not with one that has begun before.
func TestSecondsOfServices(t *testing.T) {
	var s seconds
	s.tick()
	first := s.wait()
	if s.wait() != first {
		t.Error("two who wait in one second wait for two")
	}
	select {
	case <-first:
		t.Error("a second that was over counts")
	default:
	}
	s.tick()
	<-first
	if s.wait() == first {
		t.Error("a second comes twice")
	}
}
