package dirclient

import "time"

// How a client that looks like C tor's asks again for microdescriptors that caches did not give. Each waits by itself, longer after each cache that
// lacks it; what the client looks for at a tick, or when an answer has come that does not suffice, is divided into requests anew (update_microdesc_downloads and
// dir_microdesc_download_failed there). A request that ended without an answer delays nothing.

// delays says when each may be asked for again that a cache lacked.
type delays map[[32]byte]*attempts

// lackedBy notes that a cache did not have one.
func (c *Client) lackedBy(digest [32]byte, now time.Time) {
	a := c.delays[digest]
	if a == nil {
		a = &attempts{}
		c.delays[digest] = a
	}
	a.plan(now, 0)
}

// mayAsk returns those of the missing ones that may be asked for now and are not on their way. It forgets the delays of all others
// than the missing ones.
func (c *Client) mayAsk(missing [][32]byte, now time.Time) [][32]byte {
	kept := delays{}
	var out [][32]byte
	for _, m := range missing {
		a := c.delays[m]
		if a != nil {
			kept[m] = a
		}
		if !c.pending[m] && (a == nil || a.due(now)) {
			out = append(out, m)
		}
	}
	c.delays = kept
	return out
}

// enough reports whether there are enough microdescriptors for circuits, the guards' among them.
func (c *Client) enough(now time.Time) bool {
	return c.Ready(c.latest, now) && (c.cfg.Lacks == nil || !c.cfg.Lacks(c.latest))
}

// nextLook returns a timer that ends when a paced client looks for microdescriptors again.
func (c *Client) nextLook() *time.Timer {
	if !c.paced() {
		return time.NewTimer(longestSleep)
	}
	return time.NewTimer(min(max(c.pace.look.Sub(c.now()), time.Millisecond), longestSleep))
}

// fetchesMicrodescs reports whether missing microdescriptors are asked for now. A client that looks like C tor's does so when a consensus
// has come without enough of them, and at ticks: if there are many of them or the last request was some time ago, or too few for circuits. It does not while nobody uses
// it, unless there has been no directory for circuits yet.
func (c *Client) fetchesMicrodescs(now time.Time) bool {
	p := &c.pace
	if !c.paced() {
		return true
	}
	enough := c.enough(now)
	idle := c.cfg.Idle != nil && c.cfg.Idle() && c.Ready(c.cur.Load(), now)
	if !enough && !idle && !p.asked.Equal(c.latest.ValidAfter()) {
		return true
	}
	every := commonTick
	if !enough && !idle {
		every = greedyTick
	}
	if left := p.look.Sub(now); left > 0 && left <= commonTick {
		return false
	}
	first := p.look.IsZero()
	one := p.micro
	if one.IsZero() {
		one = p.began
	}
	p.look = nextTick(one, now.Add(1), every)
	if first || idle {
		return false
	}
	ready := len(c.mayAsk(c.latest.MissingMicrodescs(), now))
	return ready > 0 && (!enough || ready >= fewMicrodescs || now.Sub(p.tried) >= fewWait || now.Before(p.tried))
}
