package hsclient

import (
	"context"
	"slices"

	"github.com/chivenet/chive/internal/netdoc"
)

// elsewhere asks for a service at introduction points that an attempt has not tried, while
// the attempt waits for the service at its rendezvous points. It runs once an attempt, when
// the service has not come for a while and the attempt has no point left, or has asked often
// enough: the host that took the introductions may be dead. The points are those of a newer
// descriptor. If there is none, they are those of the other hosts of a fleet.
func (c *Client) elsewhere(ctx context.Context, a *approach, desc *cached, stable bool) outcome {
	newer, err := c.descriptor(ctx, a.history, desc)
	switch {
	case ctx.Err() != nil:
		return outcome{}
	case err == nil && c.protects(newer) == nil:
		a.found(newer)
	case err != nil && desc.inner.Fleet != nil:
		c.cfg.Log.Debug("no newer descriptor of an onion service", "err", err)
		newer = desc
	default:
		return outcome{}
	}
	points, _ := a.history.usable(newer)
	if points = a.untried(points); len(points) == 0 {
		return outcome{}
	}
	b := newApproach(a.history, points, c.puzzle(newer))
	b.course = func(ctx context.Context, p *netdoc.HSIntroPoint) outcome { return c.course(ctx, b, p, newer, stable) }
	o := b.run(ctx)
	o.err = nil // what happens to the first introductions says why the attempt fails
	return o
}

// untried leaves out the points that the attempt has tried.
func (a *approach) untried(points []*netdoc.HSIntroPoint) []*netdoc.HSIntroPoint {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(points, func(p *netdoc.HSIntroPoint) bool { return a.tried[p.Auth] })
}

// found notes a newer descriptor, whose points were tried, too.
func (a *approach) found(newer *cached) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.newest = newer
}

// latest returns the newest descriptor whose points were tried.
func (a *approach) latest() *cached {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.newest
}
