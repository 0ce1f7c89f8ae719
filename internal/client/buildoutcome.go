package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
)

// What becomes of a circuit under construction, and what the guard and the estimator of build
// timeouts learn from it.

// hopBuilt notes that a hop is built.
func (b *building) hopBuilt(n int) {
	now := time.Now()
	if b.late != nil {
		b.lookAtHop(n, now)
	}
	late := b.noteHop(n, now)
	b.life.extended(n)
	b.learn(func(e *cbt.Estimator) { e.HopBuilt(n, len(b.path.Hops), b.asked, now, late) })
}

// noteHop notes that a hop is built, and reports whether the circuit counts as one that was too slow. C tor counts what
// is used as a success, even if it has counted a timeout before, because nothing else was there.
func (b *building) noteHop(n int, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hops, b.took = n, append(b.took, now.Sub(b.start))
	if b.late != nil {
		return b.tooLate
	}
	return b.timedOut
}

// hopTimes returns how long each hop took that is built.
func (b *building) hopTimes() []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.took)
}

// countTimeout counts the circuit, once, as one that has passed its usage timeout.
func (b *building) countTimeout() {
	b.mu.Lock()
	was, hops, asked := b.timedOut, b.hops, b.asked
	b.timedOut = true
	b.mu.Unlock()
	if was {
		return
	}
	b.times.use(func(e *cbt.Estimator) {
		if e.Live() && e.Timeout(hops, asked) {
			b.log.Info("most circuits time out: the build timeout is learned anew")
		}
	})
}

// unreachable reports whether the guard could not be connected to, and whether it was only silent. That alone says that
// it is down: who floods a guard, or makes circuits fail, must not drive its clients to other guards.
func unreachable(err error) (how guard.Failure, ok bool) {
	var c *channel.ConnectError
	if !errors.As(err, &c) {
		return 0, false
	}
	if fault.Is(c.Err, fault.Timeout) {
		return guard.Silent, true
	}
	return guard.Unreachable, true
}

// guardPatience is how long a guard must be silent until a client goes on to the next one. C tor waits until the kernel
// gives up the connection, which Linux does after 127 seconds, and for 300 in the midst of TLS.
const guardPatience = 127 * time.Second

// reportFailure tells the guard and the estimator why the circuit failed.
func (b *building) reportFailure(ctx context.Context, err error, now time.Time) {
	b.mu.Lock()
	hops := b.hops
	b.mu.Unlock()
	timedOut := errors.Is(err, errBuildTimeout)
	if timedOut {
		b.countTimeout() // until times were learned the usage timeout is not shorter, and begins later
		b.times.use(func(e *cbt.Estimator) { e.Abandoned(b.start) })
	}
	if timedOut && hops == 0 {
		b.firstHopSilent(b.ch, b.asked)
	}
	u := b.path.Guard
	how, connecting := unreachable(err)
	switch {
	case u == nil:
	case hops > 0 && ctx.Err() == nil:
		if timedOut {
			u.TimedOut()
		}
		u.Failed(now, guard.Beyond)
	case connecting && ctx.Err() == nil && !b.proxyFailed(ctx, err):
		u.Failed(now, how)
	default: // this client gave up, or what happened says nothing about the guard
		u.Cancelled(now)
	}
}

// firstHopSilent notes that the first hop, asked over a link at a time, did not answer. A link is in doubt
// when that goes on for long. One circuit that is given up earlier says nothing: others, and
// directory requests, go on over the link, and another one to the same guard would tell who watches
// that they belong together. But while there is no usable directory, requests for one are all
// that is asked, and each is given up early.
func (c *Client) firstHopSilent(ch *channel.Channel, asked time.Time) {
	if ch != nil {
		c.times.use(func(e *cbt.Estimator) { ch.Unanswered(asked, e.Stalled()) })
	}
}
