package flow

import "time"

// jumpRatio is how far a round-trip time may be from the average before we suspect
// the clock (proposal 324, section 2.1.1).
const jumpRatio = 5000

// rtt measures round-trip times from the sending of the last cell that a SENDME
// acknowledges to its arrival (proposal 324, section 2.1). It uses whole
// microseconds, like the published vectors.
type rtt struct {
	ring    []time.Time // length is a power of two, or zero
	first   int
	n       int
	ewma    uint64
	min     uint64
	max     uint64
	stalled bool
}

// sent records the time of a cell that the peer must acknowledge with a SENDME.
func (r *rtt) sent(now time.Time) {
	if r.n == len(r.ring) {
		bigger := make([]time.Time, max(16, 2*len(r.ring)))
		for i := range r.n {
			bigger[i] = r.ring[(r.first+i)&(len(r.ring)-1)]
		}
		r.ring, r.first = bigger, 0
	}
	r.ring[(r.first+r.n)&(len(r.ring)-1)] = now
	r.n++
}

// take removes and returns the time of the oldest such cell.
func (r *rtt) take() (time.Time, bool) {
	if r.n == 0 {
		return time.Time{}, false
	}
	at := r.ring[r.first]
	r.first = (r.first + 1) & (len(r.ring) - 1)
	r.n--
	return at, true
}

// update adds a measurement of v's circuit. It reports whether the measurement was
// used.
func (r *rtt) update(d time.Duration, v *vegas) bool {
	us := uint64(max(0, d.Microseconds()))
	if r.suspect(us, v.slow) {
		return false
	}
	n := v.p.EWMASS
	if !v.slow {
		n = min(v.updateRate()*v.p.EWMACwndPct/100, v.p.EWMAMax)
	}
	r.ewma = ewma(us, r.ewma, max(2, n))
	r.max = max(r.max, us)
	switch {
	case r.min == 0:
		r.min = r.ewma
	case v.cwnd == v.p.CwndMin && !v.slow:
		// A minimum that is too low keeps the window at its own minimum; raise it.
		hi, lo, pct := max(r.ewma, r.min), min(r.ewma, r.min), uint64(v.p.RTTResetPct)
		r.min = pct*hi/100 + (100-pct)*lo/100
	case r.ewma < r.min:
		r.min = r.ewma
	}
	return true
}

// suspect reports whether the clock stalled or jumped.
func (r *rtt) suspect(us uint64, slow bool) bool {
	switch {
	case us == 0:
		r.stalled = true
		return true
	case slow || r.ewma == 0:
		return false // there is nothing to compare with
	case r.ewma > us*jumpRatio:
		return r.stalled // an idle network looks the same, so this needs other evidence
	case us > r.ewma*jumpRatio:
		return true
	}
	r.stalled = false
	return false
}

// ewma is the n-sample moving average (proposal 324, section 2.1.2).
func ewma(cur, prev uint64, n int) uint64 {
	if prev == 0 {
		return cur
	}
	return (2*cur + uint64(n-1)*prev) / uint64(n+1)
}
