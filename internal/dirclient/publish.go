package dirclient

import "github.com/chivenet/chive/internal/netdir"

// offer publishes the latest directory if it is at least as useful as the published
// one: it has the same consensus, or is good enough, or the published one is not.
func (c *Client) offer() {
	cur, now := c.cur.Load(), c.now()
	if cur == nil || cur.ValidAfter().Equal(c.latest.ValidAfter()) || !c.Ready(cur, now) || c.Ready(c.latest, now) {
		c.publish(c.latest)
	}
}

func (c *Client) publish(d *netdir.Directory) {
	if d != c.cur.Load() {
		c.cur.Store(d)
		c.mu.Lock()
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
	}
	now := c.now()
	if !d.ReasonablyLive(now) {
		return // another is asked for
	}
	p := Progress{Phase: PhaseMicrodescs, Total: d.Len(), Done: d.Len() - len(d.MissingMicrodescs())}
	if c.Ready(d, now) {
		p.Phase = PhaseDone
	}
	c.progress(p)
}

// progress reports the progress of the client if it has changed. After PhaseDone it
// does not go back.
func (c *Client) progress(p Progress) {
	if c.reported.Phase == PhaseDone && p.Phase != PhaseDone {
		return
	}
	if c.cfg.Progress != nil && (p != c.reported || p == (Progress{})) {
		c.cfg.Progress(p)
	}
	c.reported = p
}
