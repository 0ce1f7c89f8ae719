package pool

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/path"
)

// Bounds of the pause after failed launches, which doubles with each. There is no
// pause after the first failure: most failures concern one path only.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// Bounds of the pause before something is built ahead, after failures.
const (
	minProbe = 250 * time.Millisecond
	maxProbe = time.Minute
)

// maxAvoid bounds the relays that a request's circuits avoid after failures.
const maxAvoid = 16

// launch is a circuit that is being built.
type launch struct {
	target  target
	began   time.Time
	key     isolation.Key // of the requests that wait for it
	owned   bool          // key has a meaning; otherwise it is preemptive, and may still be claimed
	private bool
	exclude []ident.RSAID // exits that it avoids
	next    ident.RSAID   // see Request
	avoids  bool          // it goes around relays that others failed at
	slow    bool          // it takes long
	hedge   *launch       // the one beside it
	stale   bool          // from before a new identity
	late    bool          // nobody gets its circuit: see isLate
	learns  bool          // it is built to learn how long that takes
	set     bool          // a conflux set was asked for
	epoch   int           // of the requests that wait for it
	idle    time.Duration // from its begin until the circuit closes if nobody uses it, if Config.Common is set
	cancel  context.CancelCauseFunc
}

// serves reports whether the launch fits a waiter, or can be claimed for it. Nobody waits for a conflux set: one may
// take as long as its exit wants, and C tor's streams wait for none.
func (l *launch) serves(w *waiter) bool {
	if l.set || l.stale || !l.target.covers(w.target) || l.private || w.req.Private && l.owned || l.owned && (l.epoch != w.epoch || !l.key.MayShare(w.req.Key)) || !w.req.Next.IsZero() && l.next != w.req.Next {
		return false
	}
	for _, id := range w.req.ExcludeExit {
		if !slices.Contains(l.exclude, id) {
			return false
		}
	}
	return true
}

// wantsMore reports whether the launch goes around relays that a request would take.
func (l *launch) wantsMore(w *waiter) bool {
	return l.avoids || len(l.exclude) > len(w.req.ExcludeExit) || !l.next.IsZero() && w.req.Next.IsZero()
}

// scheduleLocked serves the waiting requests in their order: with open circuits, then
// with launches under way, then with new launches.
func (p *Pool) scheduleLocked() {
	if p.closed {
		return
	}
	now := time.Now()
	p.waiters = slices.DeleteFunc(p.waiters, func(w *waiter) bool {
		e := p.bestLocked(w, now)
		if e != nil {
			p.leaseLocked(e, w, now)
		}
		return e != nil
	})
	p.disownLocked()
	for _, w := range p.waiters {
		if w.launch != nil {
			continue
		}
		for _, l := range p.launches {
			if l.serves(w) {
				l.claim(w)
				break
			}
		}
		if w.launch == nil && len(p.launches) < p.cfg.MaxClientCircuitsPending && !now.Before(p.notBefore) {
			p.launchForLocked(w, now).claim(w)
		}
	}
	for _, w := range p.waiters {
		if l := w.launch; l != nil && l.slow && l.hedge == nil && len(p.launches) < p.cfg.MaxClientCircuitsPending && !now.Before(p.notBefore) {
			// The waiters stay with the slow launch, and take the circuit that is
			// ready first. If the hedge fails, there will be another.
			h := p.launchForLocked(w, now)
			h.owned, h.key, h.private, h.epoch = true, l.key, l.private, l.epoch
			l.hedge = h
			p.total.Hedged++
		}
	}
}

// disownLocked frees the launches that no request waits for any more, because an open
// circuit served it or because it gave up.
func (p *Pool) disownLocked() {
	for _, l := range p.launches {
		l.owned = slices.ContainsFunc(p.waiters, func(w *waiter) bool {
			return w.launch != nil && (w.launch == l || w.launch.hedge == l)
		})
		l.private = l.private && l.owned
	}
}

// claim makes a launch a waiter's.
func (l *launch) claim(w *waiter) {
	l.owned, l.key, l.private, l.epoch = true, w.req.Key, w.req.Private, w.epoch
	w.launch = l
}

func (p *Pool) launchForLocked(w *waiter, now time.Time) *launch {
	return p.launchLocked(w.target, w.req.Next, w.req.ExcludeExit, w.avoid, now)
}

// launchLocked begins to build a circuit.
func (p *Pool) launchLocked(t target, next ident.RSAID, excludeExit, avoid []ident.RSAID, now time.Time) *launch {
	return p.beginLocked(&launch{target: t, began: now, next: next, exclude: slices.Clone(excludeExit), avoids: len(avoid) > 0}, avoid)
}

func (p *Pool) beginLocked(l *launch, avoid []ident.RSAID) *launch {
	t, now := l.target, l.began
	spec := Spec{Set: l.set, Spec: path.Spec{
		Hops: t.hops, Next: l.next, Stable: t.stable, Exclude: slices.Clone(avoid), ExcludeExit: slices.Clone(l.exclude),
	}}
	if !t.internal {
		spec.Dests = []path.Dest{t.dest()}
		spec.Country = t.country
		for r, until := range p.refused {
			if r.port == t.port && now.Before(until) {
				spec.ExcludeExit = append(spec.ExcludeExit, r.exit)
			}
		}
	}
	if p.cfg.Common != nil {
		l.idle = p.idleLocked(now) // now, as in C tor: the circuit itself may be the last that is learned from
	}
	spec.Idle = l.idle
	spec.Slow = func() { p.isSlow(l) }
	if p.cfg.Common != nil {
		spec.Late = func() { p.isLate(l) }
	}
	ctx, cancel := context.WithCancelCause(p.ctx)
	l.cancel = cancel
	p.launches = append(p.launches, l)
	p.total.Launched++
	p.wg.Go(func() {
		defer panics.Recover(p.cfg.Log, func(err error) { p.finished(l, nil, err) })
		defer cancel(nil)
		c, err := p.builder.Build(ctx, spec)
		p.finished(l, c, err)
	})
	return l
}

// isSlow notes that a launch takes long, so that the requests that wait for it
// get another one beside it.
func (p *Pool) isSlow(l *launch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !l.slow {
		l.slow = true
		p.scheduleLocked()
		p.kick() // building ahead may need another one, too
	}
}

// finished takes the result of a launch.
func (p *Pool) finished(l *launch, c PooledCircuit, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.late {
		if err == nil {
			c.Close()
		}
		return
	}
	p.launches = slices.DeleteFunc(p.launches, func(o *launch) bool { return o == l })
	now := time.Now()
	switch {
	case errors.Is(err, ErrLate): // as C tor, count no failure
		p.total.Late++
	case err == nil && (p.closed || l.stale):
		c.Close()
	case err == nil:
		p.failures, p.notBefore = 0, time.Time{}
		p.total.Built++
		p.add(c, l, now)
	case !p.closed && !l.stale:
		p.total.Failed++
		p.noteFailureLocked(l, err, now)
	}
	p.servePrivateLocked(l, now)
	p.forsakeLocked(l)
	p.scheduleLocked()
	p.kick()
}

// forsakeLocked has nobody wait for a launch any more.
func (p *Pool) forsakeLocked(l *launch) {
	for _, w := range p.waiters {
		if w.launch == l {
			w.launch = nil
		}
	}
	for _, o := range p.launches {
		if o.hedge == l {
			o.hedge = nil
		}
	}
}

// servePrivateLocked gives the circuit of a launch that was for one request alone to that one: another could take it that waits for
// longer, and whose own launch would then fit nobody.
func (p *Pool) servePrivateLocked(l *launch, now time.Time) {
	i := slices.IndexFunc(p.waiters, func(w *waiter) bool { return l.private && w.launch != nil && (w.launch == l || w.launch.hedge == l) })
	if i < 0 {
		return
	}
	w := p.waiters[i]
	if e := p.bestLocked(w, now); e != nil {
		p.waiters = slices.Delete(p.waiters, i, i+1)
		p.leaseLocked(e, w, now)
	}
}

// add takes the new circuit of a launch into the pool.
func (p *Pool) add(c PooledCircuit, l *launch, now time.Time) {
	p.keepLocked(&entry{c: c, internal: l.target.internal, country: l.target.country, learns: l.learns, set: l.set, steered: c.Steered(), built: now, expires: p.expiresLocked(l, now)})
}

// keepLocked keeps a circuit until it ends.
func (p *Pool) keepLocked(e *entry) {
	p.entries = append(p.entries, e)
	p.wg.Go(func() {
		defer panics.Recover(p.cfg.Log, nil)
		<-e.c.Done()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.entries = slices.DeleteFunc(p.entries, func(o *entry) bool { return o == e })
		p.kick()
	})
}

// jitter varies a duration by a tenth, so that circuits do not expire together.
func (p *Pool) jitter(d time.Duration) time.Duration {
	if p.cfg.Rand == nil || d < 10 {
		return d
	}
	return d - time.Duration(p.cfg.Rand.Int64N(int64(d/10)))
}

// noteFailureLocked notes a launch's failure. It fails the requests that had too many of
// them, or that no other path can help.
func (p *Pool) noteFailureLocked(l *launch, err error, now time.Time) {
	p.cfg.Log.Debug("circuit could not be built", "err", err)
	var at *HopError
	blamed := errors.As(err, &at)
	hopeless := errors.Is(err, path.ErrNone) || fault.Is(err, fault.Config)
	if hopeless {
		if !l.owned {
			delete(p.predicted, l.target) // no relay serves it: do not try for ever
		}
	} else if !l.began.Before(p.failedAt) {
		// Launches under way at the same time often fail together, of one cause such
		// as a guard's end. Only launches that began after it was known count.
		p.failures, p.failedAt = p.failures+1, now
		p.probeAt = now.Add(min(minProbe<<min(p.failures-1, 10), maxProbe))
		if p.failures > 1 {
			p.notBefore = now.Add(min(minBackoff<<min(p.failures-2, 10), maxBackoff))
		}
	}
	p.waiters = slices.DeleteFunc(p.waiters, func(w *waiter) bool {
		if w.launch != l {
			return false
		}
		w.failed++
		w.lastErr = err
		if blamed && len(w.avoid) < maxAvoid {
			w.avoid = append(w.avoid, at.Relay)
		}
		switch {
		case hopeless && l.wantsMore(w):
			w.avoid = nil // perhaps a relay that failed once is the only one
		case hopeless:
			w.deliver(nil, fault.New(fault.KindOf(err), "circuit: %w", err))
			return true
		}
		if w.failed >= p.cfg.MaxAttempts {
			w.deliver(nil, fault.New(fault.KindOf(err), "circuit: %d attempts failed, the last: %w", w.failed, err))
			return true
		}
		return false
	})
}
