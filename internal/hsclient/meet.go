package hsclient

import (
	"context"
	"errors"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// maxLost is how many rendezvous to which the service did not come are enough.
const maxLost = 2

// connect gets a circuit to a service.
func (c *Client) connect(ctx context.Context, k meetKey, stable bool) (Circuit, *circuit.Hop, error) {
	desc, err := c.descriptor(ctx, k.id, nil)
	if err != nil {
		return nil, nil, err
	}
	for again := false; ; again = true {
		circ, hop, err := c.meet(ctx, desc, stable)
		if err == nil || again || ctx.Err() != nil {
			return circ, hop, err
		}
		// The service may have other introduction points by now.
		newer, ferr := c.descriptor(ctx, k.id, desc)
		if ferr != nil {
			c.cfg.Log.Debug("no newer descriptor of an onion service", "err", ferr)
			return nil, nil, err
		}
		desc = newer
	}
}

// made is the outcome of establish on a goroutine of its own.
type made struct {
	rend *rendezvous
	err  error
}

// prepare begins to make a rendezvous point; the channel receives once.
func (c *Client) prepare(ctx context.Context, stable bool) <-chan made {
	out := make(chan made, 1)
	c.wg.Go(func() {
		defer panics.Recover(c.cfg.Log, func(err error) { out <- made{nil, err} })
		circ, err := c.cfg.Network.Internal(ctx, stable)
		if err != nil {
			out <- made{nil, err}
			return
		}
		rend, err := establish(ctx, circ)
		out <- made{rend, err}
	})
	return out
}

// prepared returns the rendezvous point that is being made. If it fails, others are
// tried.
func (c *Client) prepared(ctx context.Context, making *<-chan made, stable bool) (*rendezvous, error) {
	for try := 1; ; try++ {
		if *making == nil {
			*making = c.prepare(ctx, stable)
		}
		m := <-*making
		*making = nil
		if m.err == nil || try == maxLost || ctx.Err() != nil {
			return m.rend, m.err
		}
		c.cfg.Log.Debug("no rendezvous point", "err", m.err)
	}
}

// meet meets the service that a descriptor is of: introduction points are tried
// until the service comes.
func (c *Client) meet(ctx context.Context, desc *cached, stable bool) (Circuit, *circuit.Hop, error) {
	points, late := c.usable(desc)
	if len(points) == 0 {
		return nil, nil, failure(late, nil)
	}
	if e := desc.inner.PoW; e != nil && e.Effort > 0 {
		c.cfg.Log.Debug("an onion service asks for proof of work, which this client does not do", "effort", e.Effort)
	}
	var last error
	var rend *rendezvous
	making := c.prepare(ctx, stable)
	defer func() {
		if making != nil { // it may still be under way; ctx ends with the attempt
			c.wg.Go(func() {
				defer panics.Recover(c.cfg.Log, nil)
				if m := <-making; m.rend != nil {
					m.rend.circ.Close()
				}
			})
		}
		if rend != nil {
			rend.circ.Close()
		}
	}()
	late = true
	for lost := 0; len(points) > 0 && lost < maxLost; points = points[1:] {
		p := points[0]
		circ, err := c.reach(ctx, p)
		if ctx.Err() != nil {
			if circ != nil {
				circ.Close()
			}
			return nil, nil, gaveUp(ctx, last)
		}
		if err != nil {
			last = err
			late = late && fault.Is(err, fault.Timeout)
			continue
		}
		if rend == nil {
			rend, err = c.prepared(ctx, &making, stable)
		}
		if err != nil {
			circ.Close()
			if ctx.Err() != nil {
				return nil, nil, gaveUp(ctx, err)
			}
			return nil, nil, err
		}
		err = c.through(ctx, desc, p, circ, rend)
		c.leaveIntro(circ)
		if ctx.Err() != nil {
			return nil, nil, gaveUp(ctx, last)
		}
		var hop *circuit.Hop
		if err == nil {
			hop, err = c.await(ctx, rend)
		}
		if err == nil {
			done := rend
			rend = nil
			return done.circ, hop, nil
		}
		last = err
		c.cfg.Log.Debug("an introduction failed", "err", err)
		switch {
		case errors.Is(err, errRefused) && rend.circ.Engine().Err() == nil && rend.disarm():
			late = false
			continue // the rendezvous point can serve the next introduction
		case errors.Is(err, ErrRendezvous):
			lost++
		}
		late = late && errors.Is(err, ErrIntroTimeout)
		rend.circ.Close()
		rend = nil
	}
	if errors.Is(last, ErrRendezvous) {
		return nil, nil, last
	}
	return nil, nil, failure(late, last)
}

// failure is the error of a service whose introduction points are used up.
func failure(late bool, last error) error {
	kind, err := fault.Network, ErrIntroduction
	if late {
		kind, err = fault.Timeout, ErrIntroTimeout
	}
	if last == nil || errors.Is(last, err) {
		return fault.New(kind, "onion service: %w", err)
	}
	return fault.New(kind, "onion service: %w: %w", err, last)
}

func gaveUp(ctx context.Context, last error) error {
	if last != nil {
		return fault.New(fault.Timeout, "onion service: %w; before: %w", context.Cause(ctx), last)
	}
	return fault.New(fault.Timeout, "onion service: %w", context.Cause(ctx))
}

// reach builds a circuit to an introduction point.
func (c *Client) reach(ctx context.Context, p *netdoc.HSIntroPoint) (Circuit, error) {
	t, err := c.target(p)
	if err != nil {
		c.note(p, func(s *pointState) { s.refused = true })
		return nil, err
	}
	ictx, cancel := context.WithTimeoutCause(ctx, introduceTimeout, ErrIntroTimeout)
	defer cancel()
	circ, err := c.cfg.Network.To(ictx, t, p.Specs)
	if err != nil && ctx.Err() == nil {
		c.note(p, func(s *pointState) { s.unreachable++ })
	}
	return circ, err
}

// through introduces this client at one point, and notes how that went.
func (c *Client) through(ctx context.Context, desc *cached, p *netdoc.HSIntroPoint, circ Circuit, rend *rendezvous) error {
	ictx, cancel := context.WithTimeoutCause(ctx, introduceTimeout, ErrIntroTimeout)
	defer cancel()
	err := c.introduce(ictx, desc, p, circ, rend)
	if err == nil || ctx.Err() != nil {
		return err
	}
	c.note(p, func(s *pointState) {
		switch {
		case errors.Is(err, ErrIntroTimeout):
			s.late = true
		case circ.Engine().Err() != nil && !errors.Is(err, errRefused):
			s.unreachable++
		default:
			s.refused = true
		}
	})
	return err
}

// await waits for an introduced service.
func (c *Client) await(ctx context.Context, rend *rendezvous) (*circuit.Hop, error) {
	timer := time.NewTimer(meetTimeout)
	defer timer.Stop()
	engine := rend.circ.Engine()
	select {
	case hop := <-rend.met:
		return hop, nil
	case <-engine.Done():
		return nil, fault.New(fault.Network, "onion service: %w: %w", ErrRendezvous, engine.Err())
	case <-timer.C:
		return nil, fault.New(fault.Timeout, "onion service: %w in time", ErrRendezvous)
	case <-ctx.Done():
		return nil, gaveUp(ctx, nil)
	}
}
