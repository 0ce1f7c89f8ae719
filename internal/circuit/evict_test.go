package circuit

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// reclaims runs the relay's reclaiming of memory, with so little that more bytes are over the
// bound.
func (r *rig) reclaims(more int64) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.memory.Run(ctx, nil, nil)
	}()
	r.memory.SetBound(r.memory.Used() + more)
	return func() { cancel(); <-done }
}

// TestEvictedInTheMiddle: memory that runs out in the middle of an operation, where its locks
// are held, ends nothing there. Who holds too much is closed from outside, as soon as the
// operation is over, and a set as a whole if its first leg goes.
func TestEvictedInTheMiddle(t *testing.T) {
	const much = 1 << 20
	for name, lock := range map[string]func(s *ConfluxSet, c *Circuit) (unlock func()){
		"a set receives":  func(s *ConfluxSet, _ *Circuit) func() { s.rmu.Lock(); return s.rmu.Unlock },
		"a set sends":     func(s *ConfluxSet, _ *Circuit) func() { s.mu.Lock(); return s.mu.Unlock },
		"a circuit sends": func(_ *ConfluxSet, c *Circuit) func() { c.mu.Lock(); return c.mu.Unlock },
		"a hop's streams": func(_ *ConfluxSet, c *Circuit) func() { c.Last().smu.Lock(); return c.Last().smu.Unlock },
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				p := r.pair()
				first := p.at.Legs()[0]
				n := 0
				if err := first.Last().AcceptStream(p.id, lastHeard{n: &n}); err != nil {
					t.Fatal(err)
				}
				stop := r.reclaims(much / 2)
				unlock := lock(p.at, first)
				first.Account().Reserve(much) // returns, whatever is held
				if n != 0 {
					t.Error("the stream ended within the operation")
				}
				unlock()
				synctest.Wait()
				for i, c := range append(r.accepted, p.legs...) {
					if c.Err() == nil {
						t.Errorf("circuit %d lives", i)
					}
				}
				if err := first.Err(); !fault.Is(err, fault.Resource) || n != 1 {
					t.Errorf("%v; the stream heard it %d times", err, n)
				}
				stop()
				r.nothingLeft(name, p.legs...)
			})
		})
	}
}

// TestEvictedByEarlyMessages: messages that a client sends too early, to fill a relay, cost it
// the set, and an operation under way on the other leg finds a set that has ended.
func TestEvictedByEarlyMessages(t *testing.T) {
	onRig(t, func(r *rig) {
		bystander := r.circuit(congested, nil)
		slow, fast := r.ahead(2)
		synctest.Wait()
		set := r.accepted[1].Last().Conflux()
		stop := r.reclaims(100 * earlyCost)
		for range 200 {
			if fast.Last().Send(cell.RelayXon, 9, []byte{0, 0, 0, 0, 1}) != nil {
				break // it is closed
			}
		}
		synctest.Wait()
		if slow.Err() == nil || fast.Err() == nil || bystander.Err() != nil {
			t.Errorf("%v, %v; another circuit: %v", slow.Err(), fast.Err(), bystander.Err())
		}
		if err := set.send(cell.RelayXon, 9, nil); !fault.Is(err, fault.Closed) {
			t.Errorf("the set sends: %v", err)
		}
		stop()
		bystander.Close(cell.DestroyNone, nil)
		r.nothingLeft("early", slow, fast)
	})
}
