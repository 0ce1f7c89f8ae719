package hsservice

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/path"
)

// within is a cbt.Limiter with one time for all waits.
func within(d time.Duration) cbt.Limiter {
	return func(ctx context.Context, _ cbt.Wait, _ time.Duration, cause error) (context.Context, context.CancelFunc) {
		return context.WithTimeoutCause(ctx, d, cause)
	}
}

// TestRendezvousTriesLikeThose: with Config.Limit, each circuit to a rendezvous point has the time that this gives, and the last of three
// begins within half a minute, as C tor's.
func TestRendezvousTriesLikeThose(t *testing.T) {
	for each, want := range map[time.Duration]struct {
		calls int
		took  time.Duration
	}{
		4 * time.Second: {3, 12 * time.Second}, 20 * time.Second: {2, 40 * time.Second}, 101 * time.Second: {1, 101 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := make(chan linkspec.Target, 10)
			s, p := hosted(t, silent{nowhere{calls: calls}})
			s.cfg.Limit = within(each)
			m, err := s.decrypt(p, ask().message(t, p), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := s.rendezvous(t.Context(), m); !fault.Is(err, fault.Timeout) {
				t.Error(err)
			}
			if took := time.Since(began); len(calls) != want.calls || took != want.took {
				t.Errorf("%d circuits of %v in %v", len(calls), each, took)
			}
		})
	}
}

// stuck is a network whose circuits to introduction points are never done.
type stuck struct{ nowhere }

func (stuck) Build(ctx context.Context, _ path.Spec) (*circuit.Circuit, uint64, error) {
	<-ctx.Done()
	return nil, 0, context.Cause(ctx)
}

// TestPointsEndLikeThose: with Config.Limit, a circuit to an introduction point has the time that this gives.
func TestPointsEndLikeThose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quietOn(t, stuck{})
		s.cfg.Limit = within(4 * time.Second)
		s.mu.Lock()
		p := up(t, s, 1, time.Now())
		p.circ, p.target = nil, linkspec.Target{}
		s.launchLocked(p, time.Now())
		s.mu.Unlock()
		left := func() int {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.points)
		}
		if time.Sleep(3 * time.Second); left() != 1 {
			t.Error("it was given up early")
		}
		if time.Sleep(time.Second + time.Millisecond); left() != 0 {
			t.Error("a point whose relay is silent is waited for")
		}
	})
}

// TestCircuitsToDirectories: with Config.Limit, circuits for an upload are tried for two minutes, since it is not repeated.
func TestCircuitsToDirectories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShelf(t)
		calls := make(chan linkspec.Target, 1000)
		s, _ := hosted(t, nowhere{calls: calls})
		s.cfg.Limit = within(41 * time.Second)
		dir, _ := h.dir.LookupEd(h.anyone())
		began := time.Now()
		if _, err := s.upload(t.Context(), dir, nil); err == nil || time.Since(began) != reachPatience || len(calls) != 121 {
			t.Errorf("%v after %d circuits in %v", err, len(calls), time.Since(began))
		}
		s, _ = hosted(t, silent{nowhere{calls: calls}})
		s.cfg.Limit = within(41 * time.Second)
		began = time.Now()
		if _, err := s.upload(t.Context(), dir, nil); !fault.Is(err, fault.Timeout) || time.Since(began) != 3*41*time.Second+2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// anyone returns one of the directories.
func (h *shelf) anyone() ident.Ed25519ID {
	for r := range h.dir.All() {
		return r.ID().Ed
	}
	return ident.Ed25519ID{}
}
