package hsservice

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/ident"
)

// bareWork is the work of a service that nobody else tends or answers.
func bareWork(t *testing.T, limits PoW) *work {
	t.Helper()
	w := newWork([32]byte{1}, nil, new(counts), make(chan struct{}, 1), slog.New(slog.DiscardHandler))
	t.Cleanup(w.close)
	w.checkProof = func(_, _ *[32]byte, _ *cell.PoW) error { return nil }
	w.set(&limits)
	return w
}

// given is an introduction with a proof that is worth an effort.
func given(w *work, effort uint32, now time.Time) []cell.Ext {
	seed := w.schedule.At(now)
	pow := cell.PoW{Effort: effort, SeedHead: [4]byte(seed.Value[:4])}
	return []cell.Ext{pow.Ext()}
}

func atOnce(*point, uint32) time.Duration { return 0 }

// TestProofsTurnedOff: what waits for its turn is answered when the service stops asking for
// proofs, and the memory of proofs goes with their seeds.
func TestProofsTurnedOff(t *testing.T) {
	now := time.Now()
	w := bareWork(t, PoW{Rate: 1, Burst: 1})
	opening := rate.NewLimiter(1000, 1000)
	if effort, err := w.effortOf(given(w, 5, now), &ident.Ed25519ID{12}, now, opening); effort != 5 || err != nil {
		t.Fatal(effort, err)
	}
	w.queue.add(introduction{p: new(point), at: now, effort: 5})
	w.set(nil)
	if in, wait, ok := w.take(now, atOnce); !ok || in.effort != 5 {
		t.Errorf("it waits for another %v", wait)
	}
	for range 5 {
		now = now.Add(min(w.tend(now), 3*time.Hour))
	}
	if len(w.spent) != 0 {
		t.Error("proofs are remembered though their seed has gone")
	}
}

// TestSeedEndsMeanwhile: a proof is refused if its seed ends while it is being checked.
func TestSeedEndsMeanwhile(t *testing.T) {
	now := time.Now()
	w := bareWork(t, PoW{Rate: 10, Burst: 10})
	w.checkProof = func(_, _ *[32]byte, _ *cell.PoW) error {
		w.tend(now.Add(6 * time.Hour))
		return nil
	}
	effort, err := w.effortOf(given(w, 5, now), &ident.Ed25519ID{12}, now, rate.NewLimiter(1000, 1000))
	if effort != 0 || !errors.Is(err, hspow.ErrSeed) || w.verified.Load() != 0 {
		t.Errorf("effort %d, %v", effort, err)
	}
}

// TestLeaveAnswersWork: a host that leaves has not finished while an opened introduction
// waits for its turn.
func TestLeaveAnswersWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := asksForWork(t, nowhere{}, nil)
		defer s.Close()
		s.work.set(&PoW{Rate: 1, Burst: 1})
		now := time.Now()
		if !s.finished(now) {
			t.Fatal("it is busy with nothing")
		}
		s.work.pace.AllowN(now, 1) // the next one has to wait
		s.work.queue.add(introduction{p: p, at: now, effort: 5})
		if s.finished(now) {
			t.Error("an introduction that waits for its turn is dropped")
		}
	})
}

// TestIdleEffortFalls: introductions without proofs that wait do not hold up the effort that
// was suggested once.
func TestIdleEffortFalls(t *testing.T) {
	w := bareWork(t, PoW{Rate: 10, Burst: 10})
	now := time.Now()
	w.tend(now)
	// period has 50 introductions come, of which one is answered in time.
	period := func(effort uint32) uint32 {
		for range 50 {
			w.add(introduction{p: new(point), at: now, effort: effort})
		}
		if _, _, ok := w.take(now, atOnce); !ok {
			t.Fatal("nothing is answered")
		}
		now = now.Add(hspow.ControlEvery)
		w.tend(now)
		for n := 1; n > 0; n, _, _ = w.queue.state() {
			w.queue.take(now, atOnce)
		}
		return w.suggested()
	}
	high := period(300)
	if high < 300 {
		t.Fatalf("%d is suggested while clients with an effort of 300 wait", high)
	}
	for range 5 {
		low := period(0)
		if low >= high {
			t.Fatalf("%d is suggested after %d while only clients without proofs wait", low, high)
		}
		high = low
	}
}
