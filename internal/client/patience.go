package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/pool"
)

// How long circuits of onion services may take, if this client looks like C tor's: as there, times are multiples of
// the learned one, they begin with the circuit and not with its link, and the clock is looked at once a second.

// patience is the time of one wait.
type patience struct {
	wait  cbt.Wait
	asked atomic.Pointer[time.Time] // when it was asked for a circuit
	began atomic.Pointer[time.Time] // nil: the circuit has not begun
	late  atomic.Bool               // the time was over
}

type patienceKey struct{}

func patienceOf(ctx context.Context) *patience {
	p, _ := ctx.Value(patienceKey{}).(*patience)
	return p
}

// beginPatience begins the time of a context's wait, if it has one.
func beginPatience(ctx context.Context) {
	if p := patienceOf(ctx); p != nil {
		p.begin()
	}
}

// ask notes that a circuit is asked for, which has not begun.
func (p *patience) ask() {
	now := time.Now()
	p.asked.Store(&now)
	p.began.Store(nil)
}

func (p *patience) begin() {
	now := time.Now()
	p.began.Store(&now)
}

// noTick is how long the next second of the pool's clock is waited for: while it stands, time goes on.
const noTick = 2 * time.Second

// limit is a cbt.Limiter.
func (c *Client) limit(ctx context.Context, w cbt.Wait, atMost time.Duration, cause error) (context.Context, context.CancelFunc) {
	p := &patience{wait: w}
	p.ask()
	if !w.Builds() {
		p.begin()
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, patienceKey{}, p))
	c.wg.Go(panics.Contain(c.log, func(err error) { cancel(err) }, func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.seconds.wait():
			case <-time.After(noTick):
			}
			if c.over(p, atMost, time.Now()) {
				p.late.Store(true)
				cancel(cause)
				return
			}
		}
	}))
	return ctx, func() { cancel(nil) }
}

// over reports whether the time of a wait is over.
func (c *Client) over(p *patience, atMost time.Duration, now time.Time) bool {
	began := p.began.Load()
	if began == nil {
		return now.Sub(*p.asked.Load()) >= atMost
	}
	var most, closing time.Duration
	c.times.use(func(e *cbt.Estimator) { most, closing = e.Cutoff(p.wait), e.Closing() })
	if p.wait.Builds() && !c.underway.anyOpen() {
		most = max(most, closing) // as in late.go: the network may have become slow, or another one
	}
	age := now.Sub(*began)
	if !p.wait.Builds() {
		age += time.Duration(began.Nanosecond()) // C tor notes the second in which it has asked
	}
	return age >= most
}

// buildPatiently builds a circuit for a service.
func (c *Client) buildPatiently(ctx context.Context, spec pool.Spec) (*OpenCircuit, error) {
	if patienceOf(ctx) == nil {
		return c.buildCircuit(ctx, spec)
	}
	return c.patiently(ctx, func(ctx context.Context, asked func()) (*OpenCircuit, error) {
		return c.buildFor(ctx, spec, order{purpose: purposeOf(&spec), id: c.ids.Add(1), asked: asked})
	})
}

// patiently builds a circuit during a wait. If that takes longer than the wait may, the circuit is built on, to learn how
// long it takes, and closed then.
func (c *Client) patiently(ctx context.Context, build func(ctx context.Context, asked func()) (*OpenCircuit, error)) (*OpenCircuit, error) {
	p := patienceOf(ctx)
	p.ask() // the one before has failed
	type built struct {
		circ *OpenCircuit
		err  error
	}
	own, stop := context.WithCancelCause(c.ctx)
	done := make(chan built, 1)
	c.wg.Go(panics.Contain(c.log, func(err error) { done <- built{err: err} }, func() {
		circ, err := build(own, p.begin)
		done <- built{circ, err}
	}))
	select {
	case b := <-done:
		stop(nil)
		return b.circ, b.err
	case <-ctx.Done():
	}
	measures := false
	c.times.use(func(e *cbt.Estimator) { measures = e.Measures() })
	if !measures || !p.late.Load() {
		stop(context.Cause(ctx))
	}
	c.wg.Go(panics.Contain(c.log, nil, func() {
		b := <-done
		stop(nil)
		if b.circ != nil {
			b.circ.Close()
		}
	}))
	return nil, fault.Ended(ctx, "build circuit: %w", context.Cause(ctx))
}
