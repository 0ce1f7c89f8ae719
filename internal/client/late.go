package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
)

// A client that looks like C tor's uses no circuit that takes longer than most to build: its guards would see that it does. Such
// a circuit is late. Who asked for it hears so at once, and gets another one; it goes on alone until all of its hops are there, or until
// it is given up, only because its time must be learned. While no circuit is open none is late: the network may be another one now, on
// which all take longer. See package cbt for the times.

// lateness is what makes a circuit late, under construction.
type lateness struct {
	tell func()        // see pool.Spec.Late; nil: nobody wants to know
	is   chan struct{} // closed when it is late
	stop context.CancelCauseFunc
}

// underway has the circuits under construction that may be late.
type underway struct {
	mu   sync.Mutex         // guards what follows
	all  map[*building]bool // whether it is late
	late int                // how many of them are
	open bool               // a circuit was open at the last second
}

// maxMeasured bounds the circuits that are built only to be measured: a guard that answers nothing must not make a client hold
// ever more. Those that are too many are given up at once.
const maxMeasured = 500

var errMeasured = fault.New(fault.Closed, "enough circuits are built only to be measured")

func (u *underway) add(b *building) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[*building]bool{}
	}
	u.all[b] = false
}

func (u *underway) remove(b *building) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all[b] {
		u.late--
	}
	delete(u.all, b)
}

// measure counts a circuit that is late, and reports whether it may go on.
func (u *underway) measure(b *building) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, ok := u.all[b]; !ok {
		return true // it has just ended
	}
	u.all[b] = true
	u.late++
	return u.late <= maxMeasured
}

// second notes whether a circuit is open, and returns all that are under construction.
func (u *underway) second(open bool) []*building {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open = open
	return slices.Collect(maps.Keys(u.all))
}

func (u *underway) anyOpen() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.open
}

// lookForLate finds the circuits that are late, once a second.
func (c *Client) lookForLate(now time.Time) {
	open := c.circs.anyUsual()
	for _, b := range c.underway.second(open) {
		b.look(now, open)
	}
}

// look makes the circuit late if it is. While none is open it only counts as one that takes long, so that another timeout is learned.
func (b *building) look(now time.Time, open bool) {
	built, asked := b.progress()
	past := false
	b.times.use(func(e *cbt.Estimator) { past = e.LateBetween(built, len(b.path.Hops), now.Sub(asked)) })
	switch {
	case asked.IsZero() || !past: // a link that takes long to open says nothing of circuits
	case open:
		b.becomeLate()
	case built < len(b.path.Hops):
		b.countTimeout()
	}
}

// lookAtHop makes the circuit late if a hop comes too late.
func (b *building) lookAtHop(n int, now time.Time) {
	late := false
	b.times.use(func(e *cbt.Estimator) { late = e.LateAtHop(n, now.Sub(b.asked)) })
	if late && len(b.path.Hops) >= path.DefaultHops && b.underway.anyOpen() {
		b.becomeLate()
	}
}

func (b *building) progress() (built int, asked time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hops, b.asked
}

// becomeLate makes the circuit late, unless it is already, or has all of its hops.
func (b *building) becomeLate() {
	if !b.setTooLate() {
		return
	}
	b.log.Debug("a circuit takes longer than most, and is only measured", "circuit", b.id)
	b.countTimeout()
	if b.late.tell != nil {
		b.late.tell()
	}
	close(b.late.is)
	if !b.underway.measure(b) {
		b.late.stop(errMeasured)
	}
}

func (b *building) setTooLate() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tooLate || b.hops == len(b.path.Hops) {
		return false
	}
	b.tooLate = true
	return true
}

func (b *building) isTooLate() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tooLate
}

// untilLate builds a circuit for who asks in one context, in another one, which stop ends. If the circuit is late, it returns
// pool.ErrLate, and the circuit goes on until it is built or given up, at the latest until the client ends. tell is the order's Late.
func (b *building) untilLate(asker, ctx context.Context, stop context.CancelCauseFunc, tell func()) (*OpenCircuit, error) {
	unfollow := context.AfterFunc(asker, panics.Contain(b.log, nil, func() { stop(context.Cause(asker)) }))
	// As in C tor, what hosts single onion services has no late circuits: the times of short ones would be no measure.
	if b.used.is.Load() != findable {
		b.late = &lateness{tell: tell, is: make(chan struct{}), stop: stop}
	}
	type result struct {
		circ *OpenCircuit
		err  error
	}
	done := make(chan result, 1)
	var wg sync.WaitGroup
	wg.Go(panics.Contain(b.log, func(err error) { done <- result{nil, err} }, func() {
		if b.late != nil {
			b.underway.add(b)
			defer b.underway.remove(b)
		}
		circ, err := b.run(ctx)
		done <- result{circ, err}
	}))
	var late chan struct{}
	if b.late != nil {
		late = b.late.is
	}
	select {
	case r := <-done:
		unfollow()
		stop(nil)
		return r.circ, r.err
	case <-late:
	}
	unfollow()
	err := b.lives.run(b.Client, func() {
		defer stop(nil)
		defer context.AfterFunc(b.ctx, panics.Contain(b.log, nil, func() { stop(context.Cause(b.ctx)) }))()
		wg.Wait()
	})
	if err != nil { // the client ends
		stop(err)
		wg.Wait()
	}
	return nil, pool.ErrLate
}

// measured tells the guard of a circuit that was late, and got all of its hops: for the guard it is one that nobody needed.
func (b *building) measured(now time.Time) {
	if u := b.path.Guard; u != nil {
		u.Succeeded(now)
		u.Closed(now, true)
	}
}

// lateTries is how many circuits are begun for one whose end a service has chosen, if they are late: as many as C tor tries for an
// introduction point.
const lateTries = 3

// inTime builds a circuit for what is no pool's, and another one at the next second if it is late.
func (c *Client) inTime(ctx context.Context, build func() (*OpenCircuit, error)) (*OpenCircuit, error) {
	for try := 1; ; try++ {
		circ, err := build()
		if !errors.Is(err, pool.ErrLate) || try == lateTries {
			return circ, err
		}
		select {
		case <-c.seconds.wait():
		case <-ctx.Done():
			return nil, err
		}
	}
}

// anyUsual reports whether a circuit of three hops is open that somebody has or may get.
func (o *openCircuits) anyUsual() bool {
	for _, circ := range o.list() {
		if circ.usable.Load() && !circ.longer.Load() && len(circ.hops()) == path.DefaultHops {
			return true
		}
	}
	return false
}
