package hsclient

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// maxCourses is how many courses of one attempt run at a time.
const maxCourses = 2

// outcome is how a course ended: with a circuit to the service, with an error that no
// other introduction point mends, or with neither.
type outcome struct {
	circ Circuit
	hop  *circuit.Hop
	err  error
}

// slowIntroduction is how long it may take until an introduction point has taken an
// introduction. Then a second course begins: the point may have been frozen, or cut off.
const slowIntroduction = 5 * time.Second

// approach is an attempt to meet a service. A course tries one introduction point
// after the other, with rendezvous points of its own. If that takes long, or the service
// does not come for a while, a second course begins, and the first one that meets the
// service ends the other.
type approach struct {
	c      *Client
	course func(ctx context.Context, first *netdoc.HSIntroPoint) outcome
	slow   chan struct{} // a course says that it waits for long

	mu     sync.Mutex             // guards the fields below
	points []*netdoc.HSIntroPoint // not tried yet
	sent   int                    // introductions that the points took
	late   bool                   // all that failed did so because nobody answered
	last   error
}

func newApproach(c *Client, points []*netdoc.HSIntroPoint) *approach {
	return &approach{c: c, slow: make(chan struct{}, 1), points: points, late: true}
}

// next returns the point to try next; nil if there is none, or if enough introductions
// were sent.
func (a *approach) next() *netdoc.HSIntroPoint {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.points) == 0 || a.sent >= maxLost {
		return nil
	}
	p := a.points[0]
	a.points = a.points[1:]
	return p
}

// introduced notes that a point took an introduction.
func (a *approach) introduced() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent++
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
	over := make(chan outcome, maxCourses)
	running := 0
	begin := func() {
		p := a.next()
		if p == nil {
			return
		}
		running++
		a.c.wg.Go(func() {
			defer panics.Recover(a.c.cfg.Log, func(err error) { over <- outcome{err: err} })
			over <- a.course(within, p)
		})
	}
	defer func() {
		cancel()
		if running == 0 {
			return
		}
		a.c.wg.Go(func() { // the other course may have met the service a little later
			defer panics.Recover(a.c.cfg.Log, nil)
			if o := <-over; o.circ != nil {
				o.circ.Close()
			}
		})
	}()
	begin()
	early := time.NewTimer(slowIntroduction)
	defer early.Stop()
	var fatal error
	for running > 0 {
		select {
		case <-a.slow:
			if running < maxCourses {
				begin()
			}
		case <-early.C:
			if running < maxCourses && !a.wasIntroduced() {
				begin()
			}
		case o := <-over:
			running--
			if o.circ != nil {
				return o
			}
			if o.err != nil {
				fatal = o.err
			}
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
		return fault.New(fault.Timeout, "onion service: %w; before: %w", context.Cause(ctx), last)
	}
	return fault.New(fault.Timeout, "onion service: %w", context.Cause(ctx))
}
