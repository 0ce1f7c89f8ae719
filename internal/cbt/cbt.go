// Package cbt learns how long to wait for a circuit to be built (path-spec,
// "Learning when to give up on circuit construction").
//
// An Estimator keeps the last 1,000 times that it took to reach the third hop and
// fits a Pareto curve to them. It computes two times for each circuit length.
// After the usage timeout a circuit will not be used, but it is still built, so
// that its time can be recorded. After the close timeout it is abandoned.
//
// The package is pure: it starts no goroutine and reads no clock. An Estimator is
// not safe for concurrent use; its owner must lock it.
package cbt

import (
	"math"
	"math/rand/v2"
	"time"
)

// significantHops is the length at which build times are recorded, for longer
// circuits too (path-spec 2.4.2).
const significantHops = 3

// maxTimeout bounds the doubling of the initial timeout on bad networks.
const maxTimeout = 2 * time.Hour

// Estimator learns build timeouts. Use New or Decode.
type Estimator struct {
	p       Params
	history history
	recent  outcomes
	live    liveness

	usage, closing time.Duration // for three hops
	computed       bool          // usage and closing come from the curve
	lastTest       time.Time     // launch of the last test circuit
}

// New returns an estimator without any history.
func New(p Params) *Estimator {
	e := &Estimator{p: p}
	e.recent.resize(p.RecentCount)
	e.usage, e.closing = p.InitialTimeout, p.InitialTimeout
	return e
}

// SetParams takes the parameters of a new consensus. A consensus that disables
// learning discards the history (path-spec, cbtdisabled).
func (e *Estimator) SetParams(p Params) {
	wasInitial := !e.computed && e.usage == e.p.InitialTimeout
	e.p = p
	e.recent.resize(p.RecentCount)
	if p.Disabled {
		e.history = history{}
		e.reset()
		return
	}
	if wasInitial {
		e.usage, e.closing = p.InitialTimeout, p.InitialTimeout
	}
	e.update()
}

// Timeouts returns the usage and the close timeout of a circuit of the given
// number of hops, both measured from the launch of the circuit.
func (e *Estimator) Timeouts(hops int) (usage, closing time.Duration) {
	return scale(e.usage, hops), scale(e.closing, hops)
}

// Stalled returns how long a first hop must not have answered before its link is
// in doubt: no shorter than the initial timeout, so that a short one that was
// learned does not make clients open link after link.
func (e *Estimator) Stalled() time.Duration { return max(e.closing, e.p.InitialTimeout) }

// scale converts a time for three hops. Building hop N takes a round trip over N
// links, so N hops take N(N+1)/2 steps (path-spec 2.4.3).
func scale(d time.Duration, hops int) time.Duration {
	if hops < 1 {
		hops = 1
	}
	const reference = significantHops * (significantHops + 1) / 2
	f := float64(d) * float64(hops*(hops+1)/2) / reference
	if f > float64(math.MaxInt64/2) {
		return math.MaxInt64 / 2
	}
	return time.Duration(f)
}

// HopBuilt records that a circuit launched at start has hop as its last built hop
// (counted from 1) at now. It reports whether the circuit may be used: false
// means that its usage timeout has passed and that it is built only to be
// measured. timedOut says that Timeout was already recorded for this circuit, so
// that it does not count as a success.
func (e *Estimator) HopBuilt(hop, hops int, start, now time.Time, timedOut bool) (usable bool) {
	e.live.seen(now)
	took := now.Sub(start)
	usage, _ := e.Timeouts(hops)
	usable = !timedOut && took <= usage
	if hop != significantHops || e.p.Disabled {
		return usable
	}
	// A time far beyond the point where the circuit would have been abandoned
	// comes from a suspended machine or a clock that jumped, and is not a
	// measurement.
	if took < 0 || took > 2*e.closing+time.Second {
		return usable
	}
	if !timedOut {
		e.recent.add(false)
	}
	e.history.add(max(uint32(took.Milliseconds()), 1))
	e.update()
	return usable
}

// Timeout records that a circuit passed its usage timeout, once per circuit;
// hopsBuilt is how many hops it had by then, and asked is when its first hop was
// asked, zero if it was not. A first hop that has not answered counts only if
// others did since: else the network may be down. If most recent circuits timed
// out, the network has changed. Then the history is discarded and the timeout
// goes back to its initial value, or is doubled if it already was at that value
// (path-spec 2.4.5). It reports whether that happened.
func (e *Estimator) Timeout(hopsBuilt int, asked time.Time) (reset bool) {
	if e.p.Disabled || hopsBuilt < 1 && (asked.IsZero() || !e.live.last.After(asked)) {
		return false
	}
	e.recent.add(true)
	if e.recent.timeouts() < e.p.MaxTimeouts {
		return false
	}
	e.history = history{}
	e.reset()
	return true
}

func (e *Estimator) reset() {
	e.recent.clear()
	if e.usage >= e.p.InitialTimeout && !e.p.Disabled {
		e.usage = min(2*e.usage, max(maxTimeout, e.p.InitialTimeout))
		e.closing = max(e.usage, min(2*e.closing, max(maxTimeout, e.p.InitialTimeout)))
	} else {
		e.usage, e.closing = e.p.InitialTimeout, e.p.InitialTimeout
	}
	e.computed = false
}

// Abandoned records that a circuit launched at start passed its close timeout. If
// no cell was received during its life, the network is assumed to be down, and
// Live is false until Traffic is called.
func (e *Estimator) Abandoned(start time.Time) { e.live.abandoned(start) }

// Traffic records that a cell was received. Calling it once a second while
// cells arrive is enough.
func (e *Estimator) Traffic(now time.Time) { e.live.seen(now) }

// Live reports whether the network seems to be up. While it is not, timeouts
// say nothing about circuits and should not be recorded.
func (e *Estimator) Live() bool { return e.live.dead == 0 }

// Learning reports whether too few times were recorded to fit the curve.
func (e *Estimator) Learning() bool {
	return !e.p.Disabled && e.history.n < e.p.MinCircuits && e.p.MinCircuits <= historyLen
}

// WantTest reports whether a circuit should be launched now only to learn its
// build time. open is the number of open circuits. The caller launches the
// circuit.
func (e *Estimator) WantTest(now time.Time, open int) bool {
	return e.Learning() && open < e.p.MaxOpenCircuits && !now.Before(e.lastTest.Add(e.p.TestFrequency))
}

// Launched records that a circuit was launched, which delays the next test.
func (e *Estimator) Launched(now time.Time) { e.lastTest = now }

// Status is a snapshot of an Estimator, for metrics.
type Status struct {
	Usage, Close time.Duration // for three hops
	Observations int           // recorded build times, at most 1,000
	Timeouts     int           // among the recent circuits
	Learning     bool
	Live         bool
}

// Status returns a snapshot.
func (e *Estimator) Status() Status {
	return Status{e.usage, e.closing, e.history.n, e.recent.timeouts(), e.Learning(), e.Live()}
}

// update fits the curve when there are enough observations.
func (e *Estimator) update() {
	if e.p.Disabled || e.history.n < e.p.MinCircuits {
		return
	}
	c, ok := e.history.fit(e.p.NumModes)
	if !ok {
		return
	}
	longest := float64(e.history.max())
	usage := ms(min(c.quantile(e.p.Quantile), longest))
	closing := ms(min(c.quantile(e.p.CloseQuantile), 2*longest))
	e.usage = max(usage, e.p.MinTimeout)
	e.closing = max(closing, e.usage, e.p.InitialTimeout)
	e.computed = true
}

// shuffled fills the history from a histogram in random order, so that values
// expire in random order after a restart (path-spec 2.4.2).
func (e *Estimator) shuffled(times []uint32, rnd *rand.Rand) {
	rnd.Shuffle(len(times), func(i, j int) { times[i], times[j] = times[j], times[i] })
	for _, t := range times[:min(len(times), historyLen)] {
		e.history.add(t)
	}
	e.update()
}

// Forget forgets all that was learned.
func (e *Estimator) Forget() {
	e.history = history{}
	e.recent.clear()
	e.usage, e.closing, e.computed = e.p.InitialTimeout, e.p.InitialTimeout, false
}
