package flow

import "time"

// vegas is TOR_VEGAS (proposal 324, section 3.3): it estimates how many of the
// circuit's cells wait in relays' queues, as the window minus the
// bandwidth-delay product, and keeps that number between two thresholds.
type vegas struct {
	p     *Params
	t     Thresholds
	inc   int // cells that one SENDME acknowledges
	rtt   rtt
	cwnd  int
	infl  int
	bdp   int
	slow  bool
	full  bool
	block bool

	nextUpdate int // SENDMEs until the window may change
	nextCwnd   int // SENDMEs until a whole window was acknowledged
}

// NewVegasSender returns a sender with congestion control. incr is the number of
// cells that a SENDME acknowledges, from the handshake; p must not change.
func NewVegasSender(p *Params, path Path, incr int) Sender {
	v := &vegas{p: p, t: p.Thresholds[path], inc: max(1, incr), cwnd: p.CwndInit, slow: true}
	v.nextUpdate = v.updateRate()
	return v
}

// updateRate returns the number of SENDMEs between two changes of the window.
func (v *vegas) updateRate() int {
	if v.slow {
		return 1
	}
	d := v.p.CwndIncRate * v.inc
	return (v.cwnd + d/2) / d
}

// sendmesPerCwnd returns the number of SENDMEs in a window, rounded.
func (v *vegas) sendmesPerCwnd() int { return (v.cwnd + v.inc/2) / v.inc }

// After a cut the window may be smaller than infl; then nothing may be sent.
func (v *vegas) Available() int { return max(0, v.cwnd-v.infl) }

func (v *vegas) Sent(now time.Time) bool {
	v.infl++
	if v.infl%v.inc != 0 {
		return false
	}
	v.rtt.sent(now)
	return true
}

func (v *vegas) Sendme(now time.Time, blocked bool) error {
	at, ok := v.rtt.take()
	if !ok || v.infl < v.inc {
		return errNoneDue
	}
	v.nextUpdate = max(0, v.nextUpdate-1)
	v.nextCwnd = max(0, v.nextCwnd-1)
	measured := v.rtt.update(now.Sub(at), v)
	v.estimate(blocked)
	// Without a measurement only a blocked channel is a reason to change the
	// window.
	if measured || blocked {
		v.adjust()
	}
	v.infl -= v.inc
	return nil
}

// estimate computes the bandwidth-delay product, and records whether the channel
// became blocked or free, which lets the window change at once.
func (v *vegas) estimate(blocked bool) {
	if v.rtt.ewma == 0 {
		// The clock stood still for the circuit's whole life, so there is no
		// estimate. A blocked channel then sets the smallest window.
		v.block = blocked
		v.bdp = v.cwnd
		if blocked {
			v.bdp = v.p.CwndMin
		}
		return
	}
	v.bdp = int(uint64(v.cwnd) * v.rtt.min / v.rtt.ewma)
	if blocked != v.block {
		v.block = blocked
		v.nextUpdate = 0
	}
}

// adjust changes the window.
func (v *vegas) adjust() {
	queue := max(0, v.cwnd-v.bdp)
	if v.infl+v.p.FullGap*v.inc >= v.cwnd {
		v.full = true
	} else if 100*v.infl < v.p.FullMinPct*v.cwnd {
		v.full = false
	}
	if v.slow {
		v.slowStart(queue)
	} else if v.nextUpdate == 0 {
		switch {
		case queue > v.t.Delta:
			v.cwnd = v.bdp + v.t.Delta - v.p.CwndInc
		case queue > v.t.Beta || v.block:
			v.cwnd -= v.p.CwndInc
		case v.full && queue < v.t.Alpha:
			v.cwnd += v.p.CwndInc
		}
		v.cwnd = max(v.cwnd, v.p.CwndMin)
	}
	v.cwnd = min(v.cwnd, v.p.CwndMax)

	if v.nextCwnd == 0 {
		v.nextCwnd = v.sendmesPerCwnd()
	}
	if v.nextUpdate == 0 {
		v.nextUpdate = v.updateRate()
	}
	if v.p.FullPerCwnd && v.nextCwnd == v.sendmesPerCwnd() || !v.p.FullPerCwnd && v.nextUpdate == v.updateRate() {
		v.full = false
	}
}

// slowStart increases the window fast, and slower above SSCap (RFC 3742), until
// there is a queue.
func (v *vegas) slowStart(queue int) {
	if queue >= v.t.Gamma || v.block {
		v.cwnd = max(v.bdp+v.t.Gamma, v.p.CwndMin)
		v.slow = false
	} else if v.full {
		var inc int
		if v.cwnd <= v.t.SSCap {
			inc = (v.p.CwndIncSS*v.inc + 50) / 100
		} else {
			inc = max(1, (v.inc*v.t.SSCap+v.cwnd)/(2*v.cwnd))
		}
		v.cwnd += inc
		// Growth is no faster than in steady state, so slow start ends.
		if inc*v.sendmesPerCwnd() <= v.p.CwndInc*v.p.CwndIncRate {
			v.slow = false
		}
	}
	if v.cwnd >= v.p.SSMax {
		v.cwnd = v.p.SSMax
		v.slow = false
	}
}

func (v *vegas) State() State {
	us := func(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }
	return State{
		Cwnd: v.cwnd, Inflight: v.infl, SlowStart: v.slow, Full: v.full, Blocked: v.block, BDP: v.bdp,
		RTT: us(v.rtt.ewma), MinRTT: us(v.rtt.min), MaxRTT: us(v.rtt.max),
	}
}
