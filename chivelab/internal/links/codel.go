package links

import (
	"math"
	"time"
)

// codel is the state of RFC 8289, section 5: whether the queue has been bad for an interval, and
// when the next packet is to be dropped.
type codel struct {
	aboveUntil time.Duration // when a sojourn above the target has lasted an interval
	above      bool          // whether aboveUntil counts
	dropping   bool
	due        time.Duration // of the next drop, while dropping
	count      int           // drops since dropping began; it sets the pace
	before     int           // count when dropping began the last time
}

// idle says that the queue is empty.
func (c *codel) idle() { c.above, c.dropping = false, false }

// pace is the time of the drop after one: the more there were, the sooner (section 5.3).
func (c *codel) pace(after, interval time.Duration) time.Duration {
	return after + time.Duration(float64(interval)/math.Sqrt(float64(c.count)))
}

// take takes a packet from the queue, and says whether it may be dropped: its time in the queue
// and that of those before it were above the target for an interval.
func (c *codel) take(p *Pipe, now time.Duration) (w waiting, may, ok bool) {
	if len(p.queue) == 0 {
		c.above = false
		return w, false, false
	}
	w = p.pop()
	switch {
	case now-w.since < p.rules.Target || p.queued <= p.rules.MTU:
		c.above = false // one packet in the queue is no standing queue
	case !c.above:
		c.above, c.aboveUntil = true, now+p.rules.Interval
	default:
		may = now >= c.aboveUntil
	}
	return w, may, true
}

// next returns the packet to carry now, and drops those before it.
func (c *codel) next(p *Pipe, now time.Duration) (waiting, bool) {
	w, may, ok := c.take(p, now)
	switch {
	case c.dropping && !may:
		c.dropping = false
	case c.dropping:
		for c.dropping && now >= c.due {
			p.end(w.id, Early, now)
			c.count++
			if w, may, ok = c.take(p, now); may {
				c.due = c.pace(c.due, p.rules.Interval)
			} else {
				c.dropping = false
			}
		}
	case may:
		p.end(w.id, Early, now)
		w, _, ok = c.take(p, now)
		c.begin(p, now)
	}
	return w, ok
}

// begin begins to drop. If that ended only a little while ago, its pace was about right, and it
// goes on from there.
func (c *codel) begin(p *Pipe, now time.Duration) {
	grown := c.count - c.before
	c.dropping, c.count = true, 1
	if grown > 1 && now-c.due < 16*p.rules.Interval {
		c.count = grown
	}
	c.due, c.before = c.pace(now, p.rules.Interval), c.count
}
