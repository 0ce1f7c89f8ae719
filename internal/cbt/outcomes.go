package cbt

import "time"

// outcomes remembers which of the most recent circuits timed out after their
// first hop.
type outcomes struct {
	timedOut []bool // a ring
	next     int
}

// resize changes the length of the ring. If the length differs, it forgets all
// outcomes.
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

// liveness distinguishes a dead network from slow circuits: the network is dead
// if no cell was received from the launch of a circuit until it was abandoned.
type liveness struct {
	last time.Time // when the last cell was received
	dead int       // circuits abandoned since then, without any cell received during their life
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
