package pool

import (
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/path"
)

// Common has a pool build ahead, keep and close circuits as C tor's clients do, which their guards see. All
// of it happens once a second. C tor 0.4.9.11 is the reference: circuituse.c,
// circuit_predict_and_launch_new and what it calls.
type Common struct {
	// Sets reports how many conflux sets shall be ready, and how many there may be with those in use. Zero: none.
	Sets func() (ready, most int)
	// Learning returns for how long a circuit is kept that begins while build times are being learned;
	// zero: they are known.
	Learning func() time.Duration
	// Server reports whether the client hosts onion services.
	Server func() bool
	// Prompt has the first second begin when the pool opens, and not one later.
	Prompt bool
	// Begin, if not nil, is called before all else that a second has: what is late by then is replaced in the same second.
	Begin func(time.Time)
	// Swept, if not nil, is called when circuits were closed that are too old, and Second after all else that a second has.
	Swept  func(time.Time)
	Second func()
}

const (
	// sweepEvery is how often circuits are closed that are too old: C tor's NewCircuitPeriod, and the
	// second until its clock is later than that.
	sweepEvery = 31
	// maxUnused bounds the clean circuits without sets, and maxLearning those beside which some
	// are built to learn.
	maxUnused = 14
	// perPort is how many circuits each predicted port wants. Each leg of a set is one.
	perPort = 2
	// For clients of onion services there are three internal circuits, of which two are stable.
	wantInternal, wantStableInternal = 3, 2
	// wantServer is how many stable internal circuits there are for onion services.
	wantServer = 3
)

// keepCommon is keep by C tor's clock.
func (p *Pool) keepCommon() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	if p.cfg.Common.Prompt {
		p.second(time.Now())
	}
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.kicked:
			p.serve()
		case <-tick.C:
			p.second(time.Now())
		}
	}
}

// Rest takes over a circuit for onion services that nobody needs. It stays as long as one that was built ahead when it began, and
// counts as such, but nobody gets it.
func (p *Pool) Rest(c PooledCircuit, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.cfg.Common == nil {
		c.Close()
		return
	}
	p.keepLocked(&entry{c: c, internal: true, idle: true, built: began, expires: began.Add(p.idleLocked(began))})
}

// serve does what requests wait for.
func (p *Pool) serve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweepLocked(time.Now())
	p.scheduleLocked()
}

// second does what is due in a second.
func (p *Pool) second(now time.Time) {
	if f := p.cfg.Common.Begin; f != nil {
		f(now)
	}
	swept := p.secondLocked(now)
	if f := p.cfg.Common.Swept; swept && f != nil {
		f(now)
	}
	if f := p.cfg.Common.Second; f != nil {
		f()
	}
}

func (p *Pool) secondLocked(now time.Time) (swept bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetLocked(now)
	if p.sweeps--; p.sweeps <= 0 {
		p.sweeps, swept = 0, true
	}
	p.sweepLocked(now)
	if swept {
		p.sweeps = sweepEvery
	}
	p.scheduleLocked()
	p.aheadLocked(now)
	return swept
}

// newEpochLocked is NewIdentity: what was used is used no more, and closes at the next tick.
func (p *Pool) newEpochLocked() {
	p.epoch++
	for _, e := range p.entries {
		e.retired = e.retired || !e.clean()
	}
}

// idleLocked returns for how long a circuit that begins now is kept if nobody uses it.
func (p *Pool) idleLocked(now time.Time) time.Duration {
	if d := p.cfg.Common.Learning(); d > 0 {
		return d
	}
	left := p.predictsLocked(now)
	d := left + time.Second
	if r := p.cfg.Rand; r != nil {
		d += time.Duration(r.Int64N(int64(time.Second + left/20)))
	}
	return d
}

// predictsLocked returns for how much longer anything is predicted.
func (p *Pool) predictsLocked(now time.Time) (left time.Duration) {
	for _, asked := range p.predicted {
		left = max(left, asked.Add(p.cfg.Predict).Sub(now))
	}
	return left
}

// aheadLocked launches what C tor would in this second: as many sets as are missing, and one other
// circuit.
func (p *Pool) aheadLocked(now time.Time) {
	if p.closed || p.resting() || p.failures > 0 && now.Before(p.probeAt) {
		return
	}
	if p.predictsLocked(now) > 0 {
		p.setsAheadLocked(now)
	}
	clean, internal, stable := 0, 0, 0
	count := func(in, st bool) {
		clean++
		if in {
			internal++
			if st {
				stable++
			}
		}
	}
	for _, e := range p.entries {
		if e.clean() && !e.retired && !e.steered && !e.set && !e.dead() {
			count(e.internal, e.c.Stable())
		}
	}
	for _, l := range p.launches {
		if !l.set && !l.stale {
			count(l.target.internal, l.target.stable)
		}
	}
	if clean >= maxUnused || len(p.launches) >= p.cfg.MaxClientCircuitsPending {
		return
	}
	if t, ok := p.nextAheadLocked(internal, stable, now); ok {
		p.launchLocked(t, ident.RSAID{}, nil, nil, now)
		p.total.Preemptive++
		return
	}
	if p.cfg.Learn != nil && p.cfg.Learn(clean) {
		p.launchLocked(target{port: 443}, ident.RSAID{}, nil, nil, now).learns = true
		p.total.Preemptive++
	}
}

// nextAheadLocked returns what the next circuit without a set is for, if one is wanted.
func (p *Pool) nextAheadLocked(internal, stable int, now time.Time) (target, bool) {
	var inside target
	for _, t := range p.wantedLocked() {
		switch {
		case t.internal:
			if inside.hops == 0 || t.hops > inside.hops {
				inside = t
			}
		case p.handlesLocked(t) < perPort:
			return t, true
		}
	}
	if p.cfg.Common.Server() && stable < wantServer {
		// That it is wanted counts as a use (needs_hs_server_circuits): a host of services predicts for ever.
		if inside.hops == 0 {
			inside = target{internal: true, hops: path.DefaultHops}
		}
		p.predictLocked(inside, now)
		inside.stable = true
		return inside, true
	}
	if inside.hops > 0 && (stable < wantStableInternal || internal < wantInternal) {
		inside.stable = true
		return inside, true
	}
	return target{}, false
}

// handlesLocked counts what could serve a port: the legs of clean sets, and other clean circuits, also those that are being
// built. C tor counts all circuits that are linked or for any use (circuit_stream_is_being_handled), so that one set is enough.
func (p *Pool) handlesLocked(t target) (n int) {
	for _, e := range p.entries {
		if e.clean() && !e.retired && !e.steered && !e.internal && !e.dead() && t.country == e.country && (!t.stable || e.c.Stable()) && e.c.Allows(t.dest()) {
			n += e.c.Legs()
		}
	}
	for _, l := range p.launches {
		if !l.set && !l.stale && !l.target.internal && l.target.country == t.country && (l.target.stable || !t.stable) {
			n++
		}
	}
	return n
}

// setsAheadLocked launches the conflux sets that are missing.
func (p *Pool) setsAheadLocked(now time.Time) {
	ready, most := p.cfg.Common.Sets()
	all := 0
	for _, e := range p.entries {
		if e.set && !e.dead() {
			all++
			if e.clean() && !e.retired {
				ready--
			}
		}
	}
	if all >= most {
		return
	}
	for _, l := range p.launches {
		if l.set && !l.stale {
			ready--
		}
	}
	for range ready {
		if len(p.launches) >= p.cfg.MaxClientCircuitsPending {
			return
		}
		p.beginLocked(&launch{target: p.setTargetLocked(), set: true, began: now}, nil)
		p.total.Preemptive++
	}
}

// setTargetLocked returns what the exit of the next set shall let out, as C tor chooses it
// (choose_good_exit_server_general): a stream that waits; else a predicted port that too few circuits could serve;
// else anything.
func (p *Pool) setTargetLocked() target {
	stable := func(t target) target {
		t.stable = true
		return t
	}
	lacks := func(t target) bool { return !t.internal && t.country == "" && p.handlesLocked(t) < perPort }
	for _, w := range p.waiters {
		if lacks(w.target) {
			return stable(w.target)
		}
	}
	for _, t := range p.wantedLocked() {
		if lacks(t) {
			return stable(t)
		}
	}
	return target{stable: true}
}
