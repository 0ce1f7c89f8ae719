package hsclient

import (
	"context"
	"errors"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

const (
	// maxLost is how many rendezvous to which the service did not come are enough. C tor
	// goes on for two minutes: when circuits fail often, two are not enough.
	maxLost = 3
	// slowMeeting is how long an introduced service may take before it is asked
	// through another introduction point, too: attackers may flood the first one, or
	// its circuit to the service may be dead. The first rendezvous stays open. C tor
	// does the same after three times the usual time for a circuit, and a second.
	slowMeeting = 3 * time.Second
)

// connect gets a circuit to a service.
func (c *Client) connect(ctx context.Context, h *history, stable bool) (Circuit, *circuit.Hop, error) {
	desc, err := c.descriptor(ctx, h, nil)
	if err != nil {
		return nil, nil, err
	}
	desc = c.seeded(ctx, h, desc)
	for again := false; ; again = true {
		if err := c.protects(desc); err != nil {
			return nil, nil, err
		}
		newest, circ, hop, err := c.meet(ctx, h, desc, stable)
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
			return nil, nil, err
		}
		desc = newer
	}
}

// seeded returns a newer descriptor if the seed of a service's proofs of work has expired.
// If there is none, it returns the same: a service takes proofs for the seed before, and
// the clocks may differ.
func (c *Client) seeded(ctx context.Context, h *history, desc *cached) *cached {
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

// made is the outcome of establish on a goroutine of its own.
type made struct {
	rend *rendezvous
	err  error
}

// making is a rendezvous point that is being made.
type making struct {
	asked chan *rendezvous // receives once, when there is a circuit: the point; nil: there is none
	done  chan made        // receives once
}

// prepare begins to make a rendezvous point, unless there is a spare one.
func (c *Client) prepare(ctx context.Context, stable bool) *making {
	m := &making{make(chan *rendezvous, 1), make(chan made, 1)}
	if r := c.takeSpare(stable); r != nil {
		m.asked <- r
		m.done <- made{r, nil}
		close(m.asked)
		return m
	}
	c.wg.Go(func() {
		defer panics.Recover(c.cfg.Log, func(err error) { m.done <- made{nil, err} })
		defer close(m.asked)
		circ, err := c.cfg.Network.Internal(ctx, stable)
		if err != nil {
			m.done <- made{nil, err}
			return
		}
		rend := newRendezvous(circ)
		m.asked <- rend
		err = rend.establish(ctx)
		m.done <- made{rend, err}
	})
	return m
}

// prepared returns the rendezvous point that is being made. If it fails, others are
// tried.
func (c *Client) prepared(ctx context.Context, making **making, stable bool) (*rendezvous, error) {
	for try := 1; ; try++ {
		if *making == nil {
			*making = c.prepare(ctx, stable)
		}
		m := <-(*making).done
		*making = nil
		if m.err == nil || try == maxLost || ctx.Err() != nil {
			return m.rend, m.err
		}
		c.cfg.Log.Debug("no rendezvous point", "err", m.err)
	}
}

// meet meets the service that a descriptor is of. It also returns the newest descriptor that
// it tried: perhaps it fetched one.
func (c *Client) meet(ctx context.Context, h *history, desc *cached, stable bool) (*cached, Circuit, *circuit.Hop, error) {
	points, late := h.usable(desc)
	if len(points) == 0 {
		return desc, nil, nil, failure(late, nil)
	}
	a := newApproach(h, points, c.puzzle(desc))
	a.found(desc)
	a.elsewhere = func(ctx context.Context) outcome { return c.elsewhere(ctx, a, desc, stable) }
	a.course = func(ctx context.Context, p *netdoc.HSIntroPoint) outcome { return c.course(ctx, a, p, desc, stable) }
	o := a.run(ctx)
	if o.circ != nil && a.puzzle != nil && a.greatest() > a.puzzle.Effort {
		c.renew(h, desc)
	}
	return a.latest(), o.circ, o.hop, workWanted(o.err, desc.inner.PoW, a.greatest(), c.cfg.MaxEffort)
}

// course tries introduction points, the first of them p, until the service comes.
func (c *Client) course(ctx context.Context, a *approach, p *netdoc.HSIntroPoint, desc *cached, stable bool) (o outcome) {
	var rend *rendezvous
	work := proofs{a: a}
	making := c.prepare(ctx, stable)
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()           // of a proof of work that nobody needs any more
		if making != nil { // it may still be under way; ctx ends with the attempt
			c.wg.Go(func() {
				defer panics.Recover(c.cfg.Log, nil)
				if m := <-making.done; m.err == nil {
					m.rend.close()
				}
			})
		}
		if rend != nil {
			rend.close()
		}
	}()
	for ; p != nil; p = a.next() {
		work.begin(ctx)
		if rend == nil && making == nil {
			making = c.prepare(ctx, stable)
		}
		drafted := noDraft
		if work.effort == 0 { // else the proof must be in it
			drafted = c.drafting(desc, p, rend, making)
		}
		circ, err := c.reach(ctx, a.history, p)
		ahead := drafted()
		if ctx.Err() != nil {
			ahead.drop()
			if err == nil {
				circ.Close()
			}
			return outcome{}
		}
		if err != nil {
			ahead.drop()
			a.failed(err, fault.Is(err, fault.Timeout))
			continue
		}
		if rend == nil {
			rend, err = c.prepared(ctx, &making, stable)
		}
		var pow *cell.PoW
		if err == nil {
			pow, err = work.take(ctx)
		}
		if err != nil {
			ahead.drop()
			circ.Close()
			return outcome{err: err}
		}
		err = c.through(ctx, a.history, desc, p, circ, rend, pow, ahead)
		c.leaveIntro(circ)
		var hop *circuit.Hop
		if err == nil {
			a.introduced(p, pow)
			began := time.Now()
			hop, err = c.await(ctx, rend, a.slow)
			a.history.waited(p, err == nil, time.Since(began))
		}
		if err == nil {
			done := rend
			rend = nil
			return outcome{circ: done.circ, hop: hop}
		}
		if ctx.Err() != nil {
			return outcome{}
		}
		c.cfg.Log.Debug("an introduction failed", "err", err)
		if errors.Is(err, errRefused) && rend.circ.Engine().Err() == nil && rend.disarm() {
			a.failed(err, false)
			continue // the rendezvous point can serve the next introduction
		}
		a.failed(err, errors.Is(err, ErrIntroTimeout))
		rend.close()
		rend = nil
	}
	return outcome{}
}

// reach builds a circuit to an introduction point.
func (c *Client) reach(ctx context.Context, h *history, p *netdoc.HSIntroPoint) (Circuit, error) {
	t, err := c.target(p)
	if err != nil {
		h.note(p, func(s *pointState) { s.refused = true })
		return nil, err
	}
	ictx, cancel := context.WithTimeoutCause(ctx, introduceTimeout, ErrIntroTimeout)
	defer cancel()
	circ, err := c.cfg.Network.To(ictx, t, p.Specs)
	if err != nil && ctx.Err() == nil {
		h.note(p, func(s *pointState) { s.unreachable++ })
	}
	return circ, err
}

// through introduces this client at one point, and notes how that went.
func (c *Client) through(ctx context.Context, h *history, desc *cached, p *netdoc.HSIntroPoint, circ Circuit, rend *rendezvous, pow *cell.PoW, ahead *draft) error {
	ictx, cancel := context.WithTimeoutCause(ctx, introduceTimeout, ErrIntroTimeout)
	defer cancel()
	err := c.introduce(ictx, desc, p, circ, rend, pow, ahead)
	if err == nil || ctx.Err() != nil {
		return err
	}
	h.note(p, func(s *pointState) {
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

// await waits for an introduced service. If that takes long, it says so on slow.
func (c *Client) await(ctx context.Context, rend *rendezvous, slow chan<- struct{}) (*circuit.Hop, error) {
	early, late := time.NewTimer(slowMeeting), time.NewTimer(meetTimeout)
	defer early.Stop()
	defer late.Stop()
	engine := rend.circ.Engine()
	for {
		select {
		case hop := <-rend.met:
			return hop, nil
		case <-early.C:
			select {
			case slow <- struct{}{}:
			default:
			}
		case <-engine.Done():
			return nil, fault.New(fault.Network, "onion service: %w: %w", ErrRendezvous, engine.Err())
		case <-late.C:
			return nil, fault.New(fault.Timeout, "onion service: %w in time", ErrRendezvous)
		case <-ctx.Done():
			return nil, gaveUp(ctx, nil)
		}
	}
}
