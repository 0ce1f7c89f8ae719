package client

import (
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/panics"
)

// How a client that need not look like C tor's watches a circuit under construction: when it takes long, another one is begun beside
// it, and the one that is there first serves. For those that look like C tor's see late.go.

// minUsage keeps a client on a very fast network from launching a second
// circuit beside each that is a few milliseconds late, and from giving it up. A client that looks like C tor's
// looks once a second.
const minUsage = time.Second

// unlearnedSlow is the time after which a circuit gets another one beside it while
// no timeout has been learned. The timeout is a minute then, and one silent relay
// must not delay a client's start for that long. C tor's clients wait, and so do those that look like them.
const unlearnedSlow = 5 * time.Second

// watchTime returns when a circuit is given up. It begins to watch it, unless that happens once a second: see lookForLate. stop
// must be called.
func (b *building) watchTime(hops int) (closing time.Duration, stop func()) {
	if !b.cfg.Fast {
		b.times.use(func(e *cbt.Estimator) { closing = e.GiveUp(hops) })
		return closing, func() {}
	}
	var usage time.Duration
	b.times.use(func(e *cbt.Estimator) { usage, closing = e.Timeouts(hops) })
	b.usage = max(usage, minUsage)
	b.timer = time.AfterFunc(b.usage, panics.Contain(b.log, nil, b.usageTimedOut))
	if b.slow == nil || usage <= unlearnedSlow {
		return closing, func() { b.timer.Stop() }
	}
	hedge := time.AfterFunc(unlearnedSlow, panics.Contain(b.log, nil, b.askForAnother))
	return closing, func() {
		b.timer.Stop()
		hedge.Stop()
	}
}

// usageTimedOut runs when the usage timeout has passed. The circuit goes on, to learn how
// long it takes, and another one may be launched beside it.
func (b *building) usageTimedOut() {
	b.countTimeout()
	if b.slow != nil {
		b.slow()
	}
}

// askForAnother asks for another circuit beside this one, which may still be finished.
func (b *building) askForAnother() {
	b.mu.Lock()
	hops := b.hops
	b.mu.Unlock()
	b.log.Debug("a circuit takes long", "hops", hops, "of", len(b.path.Hops))
	b.slow()
}
