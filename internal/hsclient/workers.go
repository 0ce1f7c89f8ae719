package hsclient

import (
	"context"
	"crypto/rand"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/panics"
)

const (
	// maxWorkers is how many processors proofs of work take at most. They take no more than
	// half of those that the program has, unless it has only one.
	maxWorkers = 2
	// effortTime is about how long a processor works for an effort of one.
	effortTime = 10 * time.Millisecond
)

// workers make proofs of work. All proofs of a client share them. A worker tries one nonce
// for a proof, some 20 ms, and then chooses again. Strangers decide how many proofs there
// are, and how long they take, so these do not hold up the others:
//
//   - No proof has two workers while another one has none.
//   - The proof with the least effort is next. While a proof waits, its effort counts for
//     less, so that each has its turn some time.
//   - What the proofs of an isolation key have had counts against this key. So a page that
//     connects to a thousand services leaves half of the time to another page.
//
// No work is lost by a pause: each nonce is as likely to be good as any other.
//
// Only workers hold memory, a solver each. They end when there is nothing to do.
type workers struct {
	c    *Client
	most int

	mu      sync.Mutex // guards the fields below
	running int        // workers
	jobs    map[*job]struct{}
}

// job is a proof that is wanted.
type job struct {
	ctx    context.Context // ends with the job
	end    context.CancelFunc
	params hspow.Params
	key    isolation.Key
	due    time.Time     // when it was wanted, and the time that it is likely to take
	over   chan struct{} // closed when there is an outcome

	// guarded by workers.mu, and constant once over is closed
	workers int
	used    *time.Duration // of processors, by all jobs of the key
	done    bool
	proof   *cell.PoW
	err     error
}

func newWorkers(c *Client) *workers {
	n := max(1, min(maxWorkers, runtime.GOMAXPROCS(0)/2))
	return &workers{c: c, most: n, jobs: map[*job]struct{}{}}
}

// solve makes a proof for the streams of a key.
func (w *workers) solve(ctx context.Context, key isolation.Key, p hspow.Params) (*cell.PoW, error) {
	within, end := context.WithCancel(ctx)
	defer end()
	j := &job{ctx: within, end: end, params: p, key: key, over: make(chan struct{})}
	w.add(j)
	select {
	case <-j.over:
	case <-ctx.Done():
		w.finish(j, nil, fault.Ended(ctx, "proof of work: %w", context.Cause(ctx)))
	}
	return j.proof, j.err
}

// add adds a job, and has one more worker begin unless there are enough.
func (w *workers) add(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j.due = time.Now().Add(time.Duration(j.params.Effort) * effortTime)
	least := time.Duration(math.MaxInt64)
	for o := range w.jobs {
		if least = min(least, *o.used); o.key == j.key {
			j.used = o.used
		}
	}
	if j.used == nil {
		if len(w.jobs) == 0 {
			least = 0
		}
		j.used = &least // no claim to the time before it came
	}
	w.jobs[j] = struct{}{}
	for w.running < w.most {
		w.running++
		w.c.wg.Go(panics.Contain(w.c.cfg.Log, w.failed, w.run))
	}
}

// finish ends a job, unless it has ended.
func (w *workers) finish(j *job, proof *cell.PoW, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finishLocked(j, proof, err)
}

func (w *workers) finishLocked(j *job, proof *cell.PoW, err error) {
	if j.done {
		return
	}
	j.done, j.proof, j.err = true, proof, err
	delete(w.jobs, j)
	j.end()
	close(j.over)
}

// run is a worker. It ends when there is nothing to do, or no memory.
func (w *workers) run() {
	for {
		over, err := w.spell()
		if err != nil {
			w.failed(err)
		}
		if over || err != nil {
			return
		}
	}
}

// spell works until there is nothing to do, which ends the worker (over), until it fails, or
// until its memory is taken away.
func (w *workers) spell() (over bool, err error) {
	var evicted atomic.Bool
	room := w.c.room.Open(account.Request, func(error) { evicted.Store(true) })
	defer room.Close()
	if err := room.Try(hspow.SolverSize); err != nil {
		return false, fault.New(fault.Resource, "proof of work: %w", err)
	}
	solver := hspow.NewSolver()
	for !evicted.Load() {
		j := w.next(time.Now())
		if j == nil {
			return true, nil
		}
		w.work(solver, j)
	}
	return false, nil
}

var errWorker = fault.New(fault.Local, "proof of work: its worker failed")

// work tries one nonce for a job.
func (w *workers) work(solver *hspow.Solver, j *job) {
	proof, done, err := new(cell.PoW), true, errWorker
	began := time.Now()
	defer func() {
		w.put(j, time.Since(began))
		if done || err != nil {
			w.finish(j, proof, err)
		}
	}()
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails (crypto/rand)
	*proof, done, err = solver.Solve(j.ctx, &nonce, &j.params, func() bool { return true })
}

// next chooses the job to work on. If there is none it returns nil, and the worker ends.
func (w *workers) next(now time.Time) (best *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for j := range w.jobs {
		if best == nil || j.before(best, now) {
			best = j
		}
	}
	if best == nil {
		w.running--
		return nil
	}
	best.workers++
	return best
}

// before reports whether a worker takes a job rather than another one.
func (j *job) before(o *job, now time.Time) bool {
	if j.workers != o.workers {
		return j.workers < o.workers
	}
	if d := j.rank(now) - o.rank(now); d != 0 {
		return d < 0
	}
	return j.due.Before(o.due)
}

// rank is what the job's key has had, and what the job takes beyond the time that it waits.
func (j *job) rank(now time.Time) time.Duration { return *j.used + max(0, j.due.Sub(now)) }

// put notes that a worker has tried a nonce.
func (w *workers) put(j *job, used time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j.workers--
	*j.used += used
}

// failed notes that a worker ends for another reason than that there is nothing to do. With
// the last worker all jobs end.
func (w *workers) failed(err error) {
	w.c.cfg.Log.Debug("a worker for proofs of work ends", "err", err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running--; w.running > 0 {
		return
	}
	for j := range w.jobs {
		w.finishLocked(j, nil, err)
	}
}
