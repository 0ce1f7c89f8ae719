package hsclient

import (
	"context"
	"slices"

	"github.com/chivenet/chive/internal/netdoc"
)

// elsewhere asks for a service at introduction points that a race has not tried, while
// its attempts wait for the service at their rendezvous points. It runs once a race, when
// the service has not come for a while and no point is left, or enough were asked: the host that took the introductions may be dead. The points are those of a newer
// descriptor. If there is none, they are those of the other hosts of a fleet.
func (c *Client) elsewhere(ctx context.Context, r *race, desc *cached, stable bool) outcome {
	newer, err := c.descriptor(ctx, r.history, desc)
	switch {
	case ctx.Err() != nil:
		return outcome{}
	case err == nil && c.protects(newer) == nil:
		r.found(newer)
	case err != nil && desc.inner.Fleet != nil:
		c.cfg.Log.Debug("no newer descriptor of an onion service", "err", err)
		newer = desc
	default:
		return outcome{}
	}
	points, _ := r.history.usable(newer)
	if points = r.untried(points); len(points) == 0 {
		return outcome{}
	}
	b := newRace(r.history, points, c.puzzle(newer))
	b.attempt = func(ctx context.Context, p *netdoc.HSIntroPoint) outcome { return c.attempt(ctx, b, p, newer, stable) }
	o := b.run(ctx)
	o.err = nil // what happens to the first introductions says why the attempt fails
	return o
}

// untried leaves out the points that the race has tried.
func (r *race) untried(points []*netdoc.HSIntroPoint) []*netdoc.HSIntroPoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(points, func(p *netdoc.HSIntroPoint) bool { return r.tried[p.Auth] })
}

// found notes a newer descriptor, whose points were tried, too.
func (r *race) found(newer *cached) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = newer
}

// latest returns the newest descriptor whose points were tried.
func (r *race) latest() *cached {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}
