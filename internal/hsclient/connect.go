package hsclient

import (
	"context"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/netdoc"
)

// A connection to an onion service takes these steps (rend-spec-v3):
//
//	fetch the descriptor            descriptor           fetch.go
//	establish a rendezvous point    rendezvousPoint      attempt.go, rendezvous.go
//	solve a proof of work, if any   proofs               work.go
//	reach an introduction point     reachIntroduction    attempt.go
//	introduce                       introduce            introduce.go, draft.go
//	await the service               awaitService         attempt.go, or awaitSerial of serial.go
//	join: add it to the circuit     rendCircuit.join     rendezvous.go
//
// All but the first are an attempt's, which takes them again for the next introduction point
// when one fails. A race runs one attempt, and more of them when the first is slow, unless the client looks like
// C tor's (serial.go).

// connect gets a circuit to a service.
func (c *Client) connect(ctx context.Context, h *history, stable bool) (OwnedCircuit, *circuit.Hop, error) {
	desc, err := c.descriptor(ctx, h, nil)
	if err != nil {
		return nil, nil, err
	}
	desc = c.freshSeed(ctx, h, desc)
	for again := false; ; again = true {
		if err := c.protects(desc); err != nil {
			return nil, nil, err
		}
		newest, circ, hop, err := c.reach(ctx, h, desc, stable)
		if err == nil {
			c.forgetAsked(desc.blinded)
			c.restock(stable)
		}
		if err == nil || again || ctx.Err() != nil {
			return circ, hop, err
		}
		// The service may have other introduction points by now.
		newer, ferr := c.descriptor(ctx, h, newest)
		if ferr != nil {
			c.cfg.Log.Debug("no newer descriptor of an onion service", "err", ferr)
			if c.cfg.Once && ctx.Err() == nil {
				c.forgetAsked(newest.blinded) // as at the end of hunt.once
			}
			return nil, nil, err
		}
		desc = newer
	}
}

// freshSeed returns a newer descriptor if the seed of a service's proofs of work has expired.
// If there is none, it returns the same: a service takes proofs for the seed before, and
// the clocks may differ.
func (c *Client) freshSeed(ctx context.Context, h *history, desc *cached) *cached {
	if p := c.puzzle(desc); p == nil || time.Now().Before(p.Expires) {
		return desc
	}
	newer, err := c.descriptor(ctx, h, desc)
	if err != nil {
		c.cfg.Log.Debug("no newer seed for the proofs of work of an onion service", "err", err)
		return desc
	}
	return newer
}

// reach reaches the service that a descriptor is of. It also returns the newest descriptor that
// it tried: perhaps it fetched one.
func (c *Client) reach(ctx context.Context, h *history, desc *cached, stable bool) (*cached, OwnedCircuit, *circuit.Hop, error) {
	points, late := h.usable(desc)
	if len(points) == 0 {
		return desc, nil, nil, failure(late, nil)
	}
	r := newRace(h, points, c.puzzle(desc))
	r.found(desc)
	r.more = h.usableNow(desc)
	r.elsewhere = func(ctx context.Context) outcome { return c.elsewhere(ctx, r, desc, stable) }
	r.attempt = func(ctx context.Context, p *netdoc.HSIntroPoint) outcome { return c.attempt(ctx, r, p, desc, stable) }
	o := r.run(ctx)
	if o.circ != nil && r.puzzle != nil && r.greatest() > r.puzzle.Effort {
		c.renew(h, desc)
	}
	return r.latest(), o.circ, o.hop, workWanted(o.err, desc.inner.PoW, r.greatest(), c.cfg.MaxEffort)
}
