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

// maxCourses is how many courses of one attempt run at a time, unless the service asks
// for proofs of work (bidCourses).
const maxCourses = 3

// outcome is how a course ended: with a circuit to the service, with an error that no
// other introduction point mends, or with neither.
type outcome struct {
	circ Circuit
	hop  *circuit.Hop
	err  error
}

// slowIntroduction is how long it may take until an introduction point has taken an
// introduction, without the time that proofs of work take. Then a second course begins:
// the point may have been frozen, or cut off.
const slowIntroduction = 5 * time.Second

// approach is an attempt to meet a service. A course tries one introduction point
// after the other, with rendezvous points of its own. If that takes long, or the service
// does not come for a while, another course begins, and the first one that meets the
// service ends the others.
type approach struct {
	c       *Client
	history *history
	course  func(ctx context.Context, first *netdoc.HSIntroPoint) outcome
	slow    chan struct{} // a course says that it waits for long
	puzzle  *puzzle       // nil: no proofs of work
	once    sync.Once     // closes ready
	ready   chan struct{} // closed when the first proof of work is done, or none is needed
	// elsewhere is one more course, for when these lead nowhere; nil: there is none.
	elsewhere func(ctx context.Context) outcome

	mu     sync.Mutex             // guards the fields below
	points []*netdoc.HSIntroPoint // not tried yet
	again  []*netdoc.HSIntroPoint // took an introduction, and may take one with more effort
	tried  map[ident.Ed25519ID]bool
	newest *cached
	sent   int    // introductions that the points took
	done   uint32 // the greatest effort that they had
	lost   int    // how often the service did not come lately
	late   bool   // all that failed did so because nobody answered
	last   error
}

// newApproach returns an attempt. puzzle is nil if there are no proofs of work.
func newApproach(h *history, points []*netdoc.HSIntroPoint, puzzle *puzzle) *approach {
	a := &approach{c: h.c, history: h, slow: make(chan struct{}, 1), puzzle: puzzle, ready: make(chan struct{}), points: points, tried: map[ident.Ed25519ID]bool{}, late: true}
	if puzzle == nil {
		a.worked()
	} else {
		a.lost = h.losses()
	}
	return a
}

// bounds returns how many courses run at a time, and how many introductions are enough.
func (a *approach) bounds() (courses, introductions int) {
	if a.puzzle == nil {
		return maxCourses, maxLost
	}
	return bidCourses, maxBids
}

// worked notes that a proof of work is done.
func (a *approach) worked() { a.once.Do(func() { close(a.ready) }) }

// effort returns the effort for the next introduction.
func (a *approach) effort() uint32 {
	if a.puzzle == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return raise(a.puzzle.Effort, a.lost, a.c.cfg.MaxEffort)
}

// outbid notes that the service has not come for a while: it may have clients that have
// done more work.
func (a *approach) outbid() {
	if a.puzzle == nil {
		return
	}
	a.history.noteLost(a.lose())
}

func (a *approach) lose() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost++
	return a.lost
}

// next returns the point to try next; nil if there is none, or if enough introductions
// were sent.
func (a *approach) next() *netdoc.HSIntroPoint {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.points) == 0 {
		a.points, a.again = a.again, nil
	}
	if _, most := a.bounds(); len(a.points) == 0 || a.sent >= most {
		return nil
	}
	p := a.points[0]
	a.points = a.points[1:]
	a.tried[p.Auth] = true
	return p
}

// introduced notes that a point took an introduction with a proof of work, or nil.
func (a *approach) introduced(p *netdoc.HSIntroPoint, pow *cell.PoW) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent++
	if a.puzzle != nil {
		a.again = append(a.again, p)
	}
	if pow != nil {
		a.done = max(a.done, pow.Effort)
	}
}

// greatest returns the greatest effort of an introduction that a point took.
func (a *approach) greatest() uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.done
}

func (a *approach) wasIntroduced() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent > 0
}

// failed notes why one point did not lead to the service; late: because nobody answered.
func (a *approach) failed(err error, late bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late = a.late && late
	a.last = err
}

// run runs the courses, and returns a circuit or an error.
func (a *approach) run(ctx context.Context) outcome {
	within, cancel := context.WithCancel(ctx)
	courses, _ := a.bounds()
	over := make(chan outcome, courses+1)
	running := 0
	begin := func(course func(context.Context) outcome) {
		running++
		a.c.wg.Go(func() {
			defer panics.Recover(a.c.cfg.Log, func(err error) { over <- outcome{err: err} })
			over <- course(within)
		})
	}
	another := func() {
		if p := a.next(); p != nil {
			begin(func(ctx context.Context) outcome { return a.course(ctx, p) })
		}
	}
	defer func() {
		cancel()
		for range running {
			a.c.wg.Go(func() { // another course may have met the service a little later
				defer panics.Recover(a.c.cfg.Log, nil)
				if o := <-over; o.circ != nil {
					o.circ.Close()
				}
			})
		}
	}()
	another()
	ready := a.ready
	var early <-chan time.Time
	var fatal error
	slow, elsewhere := 0, a.elsewhere
	for running > 0 {
		before := running
		select {
		case <-ready:
			ready = nil
			timer := time.NewTimer(slowIntroduction)
			defer timer.Stop()
			early = timer.C
		case <-a.slow:
			slow++
			a.outbid()
			if running < courses {
				another()
			}
		case <-early:
			if running < courses && !a.wasIntroduced() {
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
	return outcome{err: a.why(ctx, fatal)}
}

// why returns the error of an attempt that failed. fatal is a course's, or nil.
func (a *approach) why(ctx context.Context, fatal error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case ctx.Err() != nil && fatal != nil:
		return gaveUp(ctx, fatal)
	case ctx.Err() != nil:
		return gaveUp(ctx, a.last)
	case fatal != nil:
		return fatal
	case errors.Is(a.last, ErrRendezvous):
		return a.last
	}
	return failure(a.late, a.last)
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
