package pool

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/panics"
)

// keep closes expired circuits and builds predicted ones, until the pool is closed.
func (p *Pool) keep() {
	if p.cfg.Common != nil {
		p.keepCommon()
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.kicked:
		case <-timer.C:
		}
		timer.Reset(p.tend(time.Now()))
	}
}

// tend does all work that is due, and returns how long the keeper may sleep.
func (p *Pool) tend(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent = false
	p.sweepLocked(now)
	p.forgetLocked(now)
	p.scheduleLocked()
	p.prebuildLocked(now)
	return p.nextLocked(now)
}

// rest waits for a second after a panic; false when the pool is closed.
func (p *Pool) rest() bool {
	select {
	case <-p.ctx.Done():
		return false
	case <-time.After(time.Second):
		return true
	}
}

// sweepLocked closes circuits that have no streams and are too old.
func (p *Pool) sweepLocked(now time.Time) {
	for _, e := range p.entries {
		if p.cfg.Common != nil && !e.private && p.sweeps > 0 {
			continue // not before the next tick
		}
		over := e.retired || e.clean() && !now.Before(e.expires) || !e.clean() && now.Sub(e.dirty) >= p.cfg.MaxCircuitDirtiness
		if over && e.leases == 0 {
			e.retired = true
			e.c.Close()
		}
	}
}

// maxPredicted bounds the targets that are predicted.
const maxPredicted = 64

// predictLocked remembers that a target was asked for.
func (p *Pool) predictLocked(t target, now time.Time) {
	if p.cfg.Common != nil && len(p.predicted) == 0 {
		p.drawPredictLocked()
	}
	_, known := p.predicted[t]
	if !known && len(p.predicted) >= maxPredicted {
		old := p.wantedLocked()
		delete(p.predicted, old[len(old)-1])
	}
	p.spent = p.spent || !known
	p.predicted[t] = now
}

// SetAvailable changes for how long clean circuits are kept: d, and for up to twice as long
// (chosen at random) circuits are built for what was used before. The consensus says d. With Config.Common, it is chosen at
// the first time, and then when something is used and nothing is predicted, as in C tor: not with each consensus.
func (p *Pool) SetAvailable(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cfg.CleanTimeout = d
	if p.cfg.Common == nil || !p.drawn {
		p.drawPredictLocked()
	}
	p.drawn = true
	p.kick()
}

// drawPredictLocked draws for how long something is predicted.
func (p *Pool) drawPredictLocked() {
	d := p.cfg.CleanTimeout
	if r := p.cfg.Rand; r != nil && d > 0 {
		d += time.Duration(r.Int64N(int64(d)))
	}
	p.cfg.Predict = d
}

// expiresLocked returns when the circuit of a launch is closed, if it is still clean then.
func (p *Pool) expiresLocked(l *launch, now time.Time) time.Time {
	if p.cfg.Common != nil {
		return l.began.Add(l.idle)
	}
	return p.cleanUntilLocked(now)
}

// cleanUntilLocked returns when a circuit that was built now is closed, if it is still clean: soon
// after the last prediction ends, if that is earlier than by itself. Otherwise an idle client
// would keep its link to the guard for nothing; and without the "soon", another circuit would
// take its place.
func (p *Pool) cleanUntilLocked(now time.Time) time.Time {
	d, left := p.jitter(p.cfg.CleanTimeout), time.Duration(0)
	for _, asked := range p.predicted {
		left = max(left, asked.Add(p.cfg.Predict).Sub(now))
	}
	if left > 0 {
		d = min(d, left+left/20)
	}
	return now.Add(d)
}

// forgetLocked drops predictions and refusals that are too old.
func (p *Pool) forgetLocked(now time.Time) {
	maps.DeleteFunc(p.predicted, func(_ target, last time.Time) bool { return now.Sub(last) >= p.cfg.Predict })
	maps.DeleteFunc(p.refused, func(_ refusal, until time.Time) bool { return !now.Before(until) })
}

// prebuildLocked launches circuits for predicted ports until each has enough clean
// ones, and one to learn build times when that is wanted. While launches fail
// it only tries one now and then: requests come first. Circuits that were built to
// learn do not count against MaxClean: they may be more than that.
func (p *Pool) prebuildLocked(now time.Time) {
	limit := p.cfg.MaxClientCircuitsPending
	if p.failures > 0 {
		// Launches that already take long do not count.
		limit = 1
		for _, l := range p.launches {
			if l.slow {
				limit = min(limit+1, p.cfg.MaxClientCircuitsPending)
			}
		}
	}
	if p.closed || p.resting() || p.failures > 0 && now.Before(p.probeAt) {
		return
	}
	spare, learning := 0, 0
	count := func(learns bool) {
		if learns {
			learning++
		} else {
			spare++
		}
	}
	for _, e := range p.entries {
		if e.clean() && !e.retired && !e.steered && !e.dead() {
			count(e.learns)
		}
	}
	for _, l := range p.launches {
		if !l.owned && !l.stale {
			count(l.learns)
		}
	}
	for _, t := range p.wantedLocked() {
		want := p.cfg.PerPort
		if t.internal {
			want *= internalTwice
		}
		for have := p.readyLocked(t); have < want; have++ {
			if t.internal && have > 0 && now.Before(p.restUntil) {
				break
			}
			if spare >= p.cfg.MaxClean || len(p.launches) >= limit {
				return
			}
			p.launchLocked(t, ident.RSAID{}, nil, nil, now)
			p.total.Preemptive++
			spare++
		}
	}
	if p.cfg.Learn != nil && len(p.launches) < limit && p.cfg.Learn(spare+learning) {
		p.launchLocked(target{port: 443}, ident.RSAID{}, nil, nil, now).learns = true
		p.total.Preemptive++
	}
}

// resting reports whether nothing shall be built ahead.
func (p *Pool) resting() bool { return p.cfg.Resting != nil && p.cfg.Resting() }

// Predicts reports whether circuits are kept ready for what was used lately.
func (p *Pool) Predicts() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.predictsLocked(time.Now()) > 0
}

// internalTwice: a client takes two internal circuits at once to reach an onion service,
// to the rendezvous point and by way of an introduction point, and not every circuit
// can be extended to every relay. So there are twice as many of them.
const internalTwice = 2

// restTime is how long circuits for onion services wait to be built ahead after one was
// taken, unless there is none: a stream is being opened with it, which must not wait for
// their handshakes. Once it is open, openTime is enough: its answer must leave this process.
const (
	restTime = 100 * time.Millisecond
	openTime = 5 * time.Millisecond
)

// EndRest notes that a stream to or of an onion service is open: circuits may soon be built
// ahead again.
func (p *Pool) EndRest() {
	until := time.Now().Add(openTime)
	p.mu.Lock()
	resting := until.Before(p.restUntil)
	if resting {
		p.restUntil = until
	}
	p.mu.Unlock()
	if resting {
		time.AfterFunc(openTime, panics.Contain(p.cfg.Log, nil, p.kick))
	}
}

// wantedLocked returns the predicted targets, the last used first, so that
// MaxClean cuts off the oldest.
func (p *Pool) wantedLocked() []target {
	ts := slices.Collect(maps.Keys(p.predicted))
	slices.SortFunc(ts, func(a, b target) int {
		return cmp.Or(p.predicted[b].Compare(p.predicted[a]), cmp.Compare(a.port, b.port))
	})
	return ts
}

// readyLocked counts the clean circuits, open or being built ahead, that fit t. One
// circuit may count for many targets. A circuit that is being built counts too,
// because most exits allow most ports; if it does not fit in the end, there is
// another launch. One that takes long does not count.
func (p *Pool) readyLocked(t target) int {
	n := 0
	for _, e := range p.entries {
		if !e.clean() || e.retired || e.steered || e.dead() || t.stable && !e.c.Stable() {
			continue
		}
		if t.internal == e.internal && t.country == e.country && (t.internal && e.c.Leads(t.hops, ident.RSAID{}) || !t.internal && e.c.Allows(t.dest())) {
			n++
		}
	}
	for _, l := range p.launches {
		if !l.owned && !l.stale && !l.slow && l.target.internal == t.internal && l.target.hops == t.hops && l.target.country == t.country && (l.target.stable || !t.stable) {
			n++
		}
	}
	return n
}

// nextLocked returns how long the keeper may sleep if nothing happens.
func (p *Pool) nextLocked(now time.Time) time.Duration {
	d := p.cfg.Predict
	at := func(t time.Time) {
		if s := t.Sub(now); s > 0 {
			d = min(d, s)
		}
	}
	for _, e := range p.entries {
		if e.clean() {
			at(e.expires)
		} else {
			at(e.dirty.Add(p.cfg.MaxCircuitDirtiness))
		}
	}
	for _, last := range p.predicted {
		at(last.Add(p.cfg.Predict))
	}
	at(p.notBefore)
	at(p.probeAt)
	at(p.restUntil)
	if p.cfg.Learn != nil {
		d = min(d, p.cfg.LearnEvery)
	}
	return d
}
