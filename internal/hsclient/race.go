package hsclient

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// maxAttempts is how many attempts run at a time, unless the service asks for proofs of work
// (bidAttempts).
const maxAttempts = 3

// outcome is how an attempt ended: with a circuit to the service, with an error that no
// other introduction point mends, or with neither.
type outcome struct {
	circ OwnedCircuit
	hop  *circuit.Hop
	err  error
}

// slowIntroduction is how long it may take until an introduction point has taken an
// introduction, without the time that proofs of work take. Then a second attempt begins:
// the point may have been frozen, or cut off.
const slowIntroduction = 5 * time.Second

// race reaches a service by several attempts. An attempt tries one introduction point
// after the other, with rendezvous points of its own. If that takes long, or the service
// does not come for a while, another attempt begins, and the first one to which the
// service comes ends the others. With Config.Limit it is serial.
type race struct {
	c       *Client
	history *history
	attempt func(ctx context.Context, first *netdoc.HSIntroPoint) outcome
	slow    chan struct{} // an attempt says that it waits for long
	puzzle  *puzzle       // nil: no proofs of work
	once    sync.Once     // closes ready
	ready   chan struct{} // closed when the first proof of work is done, or none is needed
	// elsewhere is one more attempt, for when these lead nowhere; nil: there is none.
	elsewhere func(ctx context.Context) outcome
	more      func() []*netdoc.HSIntroPoint // the points that can be used by now; nil: each is tried once

	mu     sync.Mutex             // guards the fields below
	points []*netdoc.HSIntroPoint // not tried yet
	again  []*netdoc.HSIntroPoint // took an introduction, and may take one with more effort
	tried  map[ident.Ed25519ID]bool
	newest *cached
	sent   int    // introductions that the points took
	done   uint32 // the greatest effort that they had
	missed int    // how often the service did not come lately
	late   bool   // all that failed did so because nobody answered
	last   error
}

// newRace returns a race. puzzle is nil if there are no proofs of work.
func newRace(h *history, points []*netdoc.HSIntroPoint, puzzle *puzzle) *race {
	r := &race{c: h.c, history: h, slow: make(chan struct{}, 1), puzzle: puzzle, ready: make(chan struct{}), points: points, tried: map[ident.Ed25519ID]bool{}, late: true}
	if puzzle == nil {
		r.proved()
	} else {
		r.missed = h.recentMisses()
	}
	return r
}

// bounds returns how many attempts run at a time, and how many introductions are enough.
func (r *race) bounds() (attempts, introductions int) {
	switch {
	case r.serial():
		return 1, maxSerial
	case r.puzzle == nil:
		return maxAttempts, maxRendezvous
	}
	return bidAttempts, maxBids
}

// proved notes that a proof of work is done.
func (r *race) proved() { r.once.Do(func() { close(r.ready) }) }

// effort returns the effort for the next introduction.
func (r *race) effort() uint32 {
	if r.puzzle == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return raise(r.puzzle.Effort, r.missed, r.c.cfg.MaxEffort)
}

// outbid notes that the service has not come for a while: it may have clients that have
// done more work.
func (r *race) outbid() {
	if r.puzzle == nil {
		return
	}
	r.history.noteMissed(r.noteMiss())
}

func (r *race) noteMiss() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missed++
	return r.missed
}

// next returns the point to try next; nil if there is none, or if enough introductions
// were sent.
func (r *race) next() *netdoc.HSIntroPoint {
	p, none := r.take()
	if none && r.refill() {
		p, _ = r.take()
	}
	return p
}

// take is next without refill; none says that there is no point left, and not that enough introductions were sent.
func (r *race) take() (p *netdoc.HSIntroPoint, none bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.points) == 0 {
		r.points, r.again = r.again, nil
	}
	if _, most := r.bounds(); r.sent >= most {
		return nil, false
	}
	if len(r.points) == 0 {
		return nil, true
	}
	p = r.points[0]
	r.points = r.points[1:]
	r.tried[p.Auth] = true
	return p, false
}

// introduced notes that a point took an introduction with a proof of work, or nil.
func (r *race) introduced(p *netdoc.HSIntroPoint, pow *cell.PoW) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	if r.puzzle != nil {
		r.again = append(r.again, p)
	}
	if pow != nil {
		r.done = max(r.done, pow.Effort)
	}
}

// greatest returns the greatest effort of an introduction that a point took.
func (r *race) greatest() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

func (r *race) wasIntroduced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent > 0
}

// failed notes why one point did not lead to the service; late: because nobody answered.
func (r *race) failed(err error, late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = r.late && late
	r.last = err
}

// run runs the attempts, and returns a circuit or an error.
func (r *race) run(ctx context.Context) outcome {
	within, cancel := context.WithCancel(ctx)
	attempts, _ := r.bounds()
	over := make(chan outcome, attempts+1)
	running := 0
	begin := func(attempt func(context.Context) outcome) {
		running++
		r.c.wg.Go(func() {
			defer panics.Recover(r.c.cfg.Log, func(err error) { over <- outcome{err: err} })
			over <- attempt(within)
		})
	}
	another := func() {
		if p := r.next(); p != nil {
			begin(func(ctx context.Context) outcome { return r.attempt(ctx, p) })
		}
	}
	defer func() {
		cancel()
		for range running {
			r.c.wg.Go(func() { // the service may have come to another attempt a little later
				defer panics.Recover(r.c.cfg.Log, nil)
				if o := <-over; o.circ != nil {
					o.circ.Close()
				}
			})
		}
	}()
	another()
	ready := r.ready
	var early <-chan time.Time
	var fatal error
	slow, elsewhere := 0, r.elsewhere
	for running > 0 {
		before := running
		select {
		case <-ready:
			ready = nil
			timer := time.NewTimer(slowIntroduction)
			defer timer.Stop()
			early = timer.C
		case <-r.slow:
			slow++
			r.outbid()
			if running < attempts {
				another()
			}
		case <-early:
			if running < attempts && !r.wasIntroduced() {
				another()
			}
			continue // it does not tell that the service is slow
		case o := <-over:
			running--
			if o.circ != nil {
				return o
			}
			if o.err != nil {
				fatal = o.err
			}
		}
		if slow > 0 && running > 0 && (slow > 1 || running <= before) && elsewhere != nil {
			begin(elsewhere) // two did not help, no point is left, or enough took an introduction
			elsewhere = nil
		}
	}
	return outcome{err: r.why(ctx, fatal)}
}

// why returns the error of a race that failed. fatal is an attempt's, or nil.
func (r *race) why(ctx context.Context, fatal error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ctx.Err() != nil && fatal != nil:
		return gaveUp(ctx, fatal)
	case ctx.Err() != nil:
		return gaveUp(ctx, r.last)
	case fatal != nil:
		return fatal
	case errors.Is(r.last, ErrRendezvous):
		return r.last
	}
	return failure(r.late, r.last)
}

// failure is the error of a service whose introduction points are used up.
func failure(late bool, last error) error {
	kind, err := fault.Network, ErrIntroduction
	if late {
		kind, err = fault.Timeout, ErrIntroTimeout
	}
	if last == nil || errors.Is(last, err) {
		return fault.New(kind, "onion service: %w", err)
	}
	return fault.New(kind, "onion service: %w: %w", err, last)
}

func gaveUp(ctx context.Context, last error) error {
	if last != nil {
		return fault.Ended(ctx, "onion service: %w; before: %w", context.Cause(ctx), last)
	}
	return fault.Ended(ctx, "onion service: %w", context.Cause(ctx))
}
