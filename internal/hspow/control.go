package hspow

import (
	"cmp"
	"time"
)

const (
	// ControlEvery is the time between two changes of the suggested effort, and
	// ControlEveryTesting what it is in networks for tests.
	ControlEvery, ControlEveryTesting = 300 * time.Second, 5 * time.Second
	// MaxSuggested bounds the suggested effort: C tor's clients do no more than that
	// either, and none of them could connect if more were asked.
	MaxSuggested = 10000
)

// Control finds the effort that a service suggests to its clients (hspow-spec, effort
// control): it grows while clients that did as suggested have to wait, and shrinks while
// nobody waits. Its zero value suggests no work.
type Control struct {
	Every time.Duration // between two changes; zero: ControlEvery

	suggested uint32
	floor     uint32    // the greatest effort that is worth nothing
	next      time.Time // of the next change; zero: it has not begun

	// Since the last change:
	total    uint64 // efforts that came
	served   uint64 // introductions
	lost     uint32 // the greatest effort that was dropped unserved
	hadQueue bool   // after one was served, more than a few were left
}

// Suggested returns the effort that clients should make.
func (c *Control) Suggested() uint32 { return c.suggested }

// Above tells which efforts are worth nothing (Spent.Floor): clients that do what is suggested
// must have done more, so the suggested effort grows if it is not zero.
func (c *Control) Above(floor uint32) {
	if c.floor = floor; c.suggested > 0 {
		c.suggested = max(c.suggested, c.least())
	}
}

// least is the least effort that is worth something.
func (c *Control) least() uint32 { return min(c.floor, maxFloor) + 1 }

// Came counts an introduction that waits from now on.
func (c *Control) Came(effort uint32) { c.total += uint64(effort) }

// Served counts an introduction that the service answers now. queued says that more than a
// few are left.
func (c *Control) Served(queued bool) {
	c.served++
	c.hadQueue = c.hadQueue || queued
}

// Lost counts an introduction that was dropped because too many wait, or because it has
// waited for too long.
func (c *Control) Lost(effort uint32) { c.lost = max(c.lost, effort) }

// Next returns when the next change is due.
func (c *Control) Next() time.Time { return c.next }

// Update changes the suggested effort if that is due. top is the greatest effort that
// waits now, or negative if nothing does; few says that only few wait.
func (c *Control) Update(now time.Time, top int64, few bool) {
	every := cmp.Or(c.Every, ControlEvery)
	if c.next.IsZero() || c.next.Sub(now) > every { // or the clock was set back
		c.next = now.Add(every)
	}
	if now.Before(c.next) {
		return
	}
	old := c.suggested
	switch {
	case c.lost > old, c.hadQueue && top >= int64(old):
		grown := uint64(old) + 1
		if c.served > 0 {
			grown = max(grown, c.total/c.served)
		}
		c.suggested = max(uint32(min(grown, MaxSuggested)), c.least())
	case !c.hadQueue && few:
		if c.suggested = uint32(uint64(old) * 2 / 3); c.suggested < c.least() {
			c.suggested = 0
		}
	}
	*c = Control{Every: c.Every, suggested: c.suggested, floor: c.floor, next: now.Add(every)}
}
