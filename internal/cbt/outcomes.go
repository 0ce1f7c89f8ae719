package cbt

import "time"

// outcomes remembers which of the most recent circuits timed out after their
// first hop.
type outcomes struct {
	timedOut []bool // a ring
	next     int
}

// resize forgets everything when the ring changes its length.
func (o *outcomes) resize(n int) {
	if len(o.timedOut) != n {
		*o = outcomes{timedOut: make([]bool, n)}
	}
}

func (o *outcomes) add(timedOut bool) {
	o.timedOut[o.next] = timedOut
	o.next = (o.next + 1) % len(o.timedOut)
}

func (o *outcomes) clear() {
	clear(o.timedOut)
	o.next = 0
}

func (o *outcomes) timeouts() int {
	n := 0
	for _, t := range o.timedOut {
		if t {
			n++
		}
	}
	return n
}

// liveness tells a dead network from slow circuits: the network is dead when a
// circuit lived and was abandoned without any cell received meanwhile.
type liveness struct {
	last time.Time // a cell was received
	dead int       // circuits abandoned since, that saw nothing
}

func (l *liveness) seen(now time.Time) {
	if now.After(l.last) {
		l.last = now
	}
	l.dead = 0
}

func (l *liveness) abandoned(start time.Time) {
	if l.last.Before(start) {
		l.dead++
	}
}
