package hsservice

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/linkspec"
)

// silent is a client whose circuits to relays never get an answer.
type silent struct{ nowhere }

func (n silent) To(ctx context.Context, t linkspec.Target, _ []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	n.calls <- t
	<-ctx.Done()
	return nil, 0, context.Cause(ctx)
}

// TestSilentRendezvousPoints: clients that name rendezvous points which never answer
// do not keep other clients out until all these have timed out.
func TestSilentRendezvousPoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan linkspec.Target, 10*maxRendezvous)
		k, err := NewKey()
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Config{Key: k, Circuits: silent{nowhere{calls: calls}}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		p, err := newPoint(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.subcreds = [][32]byte{{2}}
		s.mu.Unlock()
		cookie := byte(0)
		introduce := func() error {
			a := ask()
			a.cookie = cookie
			cookie++
			return s.take(introduction{p, a.message(t, p)})
		}
		for range maxRendezvous {
			if err := introduce(); err != nil {
				t.Fatal(err)
			}
		}
		if err := introduce(); err == nil {
			t.Error("there is no bound")
		}
		time.Sleep(rendPatience) // virtual
		for range maxRendezvous {
			if err := introduce(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := len(calls); n != 2*maxRendezvous {
			t.Errorf("%d circuits were begun", n)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(s.meeting); n != maxRendezvous {
			t.Errorf("%d are under way", n)
		}
	})
}
