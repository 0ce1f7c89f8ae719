package hsclient

import (
	"context"
	"crypto/rand"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/panics"
)

// maxWorkers is how many processors proofs of work take at most. They take no more than
// half of those that the program has, unless it has only one.
const maxWorkers = 2

// workers make proofs of work. All proofs of a client share them. A proof that is alone
// has all workers. When another proof waits, it keeps only one, and takes turns with the
// other: so the proof for a service that asks for much makes those for others slower, but does not stop them.
type workers struct {
	c    *Client
	busy chan struct{} // holds a token for each worker that works

	mu      sync.Mutex // guards the fields below
	waiting int        // proofs that have no worker yet
	helpers map[*helper]struct{}
}

// helper is a worker that helps another one.
type helper struct{ recall context.CancelFunc }

func newWorkers(c *Client) *workers {
	n := max(1, min(maxWorkers, runtime.GOMAXPROCS(0)/2))
	return &workers{c: c, busy: make(chan struct{}, n), helpers: map[*helper]struct{}{}}
}

// solve makes a proof. When it returns, no worker works on it any more.
func (w *workers) solve(ctx context.Context, p hspow.Params) (cell.PoW, error) {
	if err := w.enter(ctx); err != nil {
		return cell.PoW{}, err
	}
	entered := true
	defer func() {
		if entered {
			w.leave()
		}
	}()
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	var helped atomic.Pointer[cell.PoW]
	var helping sync.WaitGroup
	found := func(proof cell.PoW) {
		helped.Store(&proof)
		cancel()
	}
	for w.help(within, &helping, p, found) {
	}
	proof, err := w.work(within, p, func() error {
		w.leave()
		err := w.enter(within)
		entered = err == nil
		return err
	})
	cancel()
	helping.Wait()
	if h := helped.Load(); err != nil && h != nil {
		return *h, nil
	}
	return proof, err
}

// enter waits for a worker.
func (w *workers) enter(ctx context.Context) error {
	select {
	case w.busy <- struct{}{}:
		return nil
	default:
	}
	w.wait(1)
	defer w.wait(-1)
	select {
	case w.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Timeout, "proof of work: no processor: %w", context.Cause(ctx))
	}
}

func (w *workers) leave() { <-w.busy }

// wait counts a proof that waits for a worker, and recalls the helpers.
func (w *workers) wait(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting += n
	for h := range w.helpers {
		h.recall()
	}
}

// help has one more worker work on a proof, and reports whether there was one.
func (w *workers) help(ctx context.Context, helping *sync.WaitGroup, p hspow.Params, found func(cell.PoW)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting > 0 {
		return false
	}
	select {
	case w.busy <- struct{}{}:
	default:
		return false
	}
	ctx, recall := context.WithCancel(ctx)
	h := &helper{recall}
	w.helpers[h] = struct{}{}
	helping.Go(func() {
		defer panics.Recover(w.c.cfg.Log, nil)
		defer w.dismiss(h)
		proof, err := w.work(ctx, p, nil)
		if err == nil {
			found(proof)
		} else if ctx.Err() == nil {
			w.c.cfg.Log.Debug("a second processor cannot help with a proof of work", "err", err)
		}
	})
	return true
}

func (w *workers) dismiss(h *helper) {
	h.recall()
	w.mu.Lock()
	delete(w.helpers, h)
	w.mu.Unlock()
	w.leave()
}

// work makes a proof on this goroutine. After each nonce it calls yield, unless that is nil, if
// another proof waits.
func (w *workers) work(ctx context.Context, p hspow.Params, yield func() error) (cell.PoW, error) {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails (crypto/rand)
	pause := w.awaited
	if yield == nil {
		pause = nil
	}
	for {
		proof, done, err := w.turn(ctx, &nonce, &p, pause)
		if err != nil || done {
			return proof, err
		}
		if err := yield(); err != nil {
			return cell.PoW{}, err
		}
	}
}

// awaited reports whether a proof waits for a worker.
func (w *workers) awaited() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting > 0
}

// turn works on a proof until it is done or pause says so. Its memory is on the account, and is given back
// between two turns: only workers have any.
func (w *workers) turn(ctx context.Context, nonce *[16]byte, p *hspow.Params, pause func() bool) (cell.PoW, bool, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	room := w.c.room.Open(account.Request, cancel)
	defer room.Close()
	if err := room.Try(hspow.SolverSize); err != nil {
		return cell.PoW{}, false, fault.New(fault.Resource, "proof of work: %w", err)
	}
	return hspow.NewSolver().Solve(ctx, nonce, p, pause)
}
