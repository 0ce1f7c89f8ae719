package hsclient

import (
	"context"
	"errors"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// errIntroLate ends a wait for an introduction point: it is a time-out.
var errIntroLate = fault.Wrap(fault.Timeout, ErrIntroTimeout)

const (
	// maxRendezvous is how many rendezvous to which the service did not come are enough, except in serial races: when circuits
	// fail often, two are not enough.
	maxRendezvous = 3
	// slowService is how long an introduced service may take before it is asked
	// through another introduction point, too: attackers may flood the first one, or
	// its circuit to the service may be dead. The first rendezvous circuit stays open. Not of serial races.
	slowService = 3 * time.Second
)

// attempt takes the steps to a service with one introduction point after the other, until the
// service comes. It owns what it has taken: release gives all of it back.
type attempt struct {
	c      *Client
	race   *race
	desc   *cached
	stable bool
	cancel context.CancelFunc // of a proof of work that nobody needs any more

	proofs  proofs
	pending *pendingRend // the rendezvous point that is being made
	rend    *rendCircuit // the one that was made
	// of one introduction point
	drafting <-chan *draft // the introduction that is being made ahead
	draft    *draft        // the one that was made
	intro    OwnedCircuit  // leads to the point
}

// attempt runs an attempt that begins with the introduction point p.
func (c *Client) attempt(ctx context.Context, r *race, p *netdoc.HSIntroPoint, desc *cached, stable bool) outcome {
	ctx, cancel := context.WithCancel(ctx)
	a := &attempt{c: c, race: r, desc: desc, stable: stable, cancel: cancel, proofs: proofs{race: r}}
	defer a.release()
	for ; p != nil; p = r.next() {
		a.begin(ctx, p)
		if err := a.reachIntroduction(ctx, p); ctx.Err() != nil {
			return outcome{}
		} else if err != nil {
			a.endIntroduction()
			r.failed(err, fault.Is(err, fault.Timeout))
			continue
		}
		pow, err := a.ready(ctx)
		if err != nil {
			return outcome{err: err}
		}
		hop, err := a.introduceAndAwait(ctx, p, pow)
		switch {
		case err == nil:
			return outcome{circ: a.takeCircuit(), hop: hop}
		case ctx.Err() != nil:
			return outcome{}
		}
		c.cfg.Log.Debug("an introduction failed", "err", err)
		r.failed(err, errors.Is(err, ErrIntroTimeout))
		if !a.rendezvousServes(err) {
			a.dropRendezvous()
		}
	}
	return outcome{}
}

// rendezvousServes reports whether the rendezvous point can serve the next introduction, after one has failed.
func (a *attempt) rendezvousServes(err error) bool {
	switch {
	case a.rend.circ.Engine().Err() != nil:
		return false
	case a.race.serial() && errors.Is(err, ErrIntroTimeout):
		return a.rend.leaveUnanswered() // as in C tor
	}
	return errors.Is(err, errRefused) && a.rend.disarm()
}

// begin begins what needs no circuit to the introduction point, so that it is done when there is
// one: a proof of work, a rendezvous point, and the introduction if no proof must be in it.
func (a *attempt) begin(ctx context.Context, p *netdoc.HSIntroPoint) {
	a.proofs.begin(ctx)
	if a.rend == nil && a.pending == nil {
		a.pending = a.c.startRendezvous(ctx, a.stable)
	}
	if a.proofs.effort == 0 {
		a.drafting = a.c.startDraft(a.desc, p, a.rend, a.pending)
	}
}

// reachIntroduction builds a circuit to an introduction point. None is made ahead: the service chooses the last
// relay. If that is its own, it could tell by the times that streams of different isolation keys are one
// client's.
func (a *attempt) reachIntroduction(ctx context.Context, p *netdoc.HSIntroPoint) error {
	circ, err := a.c.reachIntroduction(ctx, a.race.history, p)
	if err == nil { // else an interface that may hold a nil pointer
		a.intro = circ
	}
	a.takeDraft()
	return err
}

// reachIntroduction builds a circuit to an introduction point, and notes a failure.
func (c *Client) reachIntroduction(ctx context.Context, h *history, p *netdoc.HSIntroPoint) (OwnedCircuit, error) {
	t, err := c.target(p)
	if err != nil {
		h.note(p, func(s *pointState) { s.refused = true })
		return nil, err
	}
	within, cancel := c.limit(ctx, cbt.Extended, introduceTimeout, errIntroLate)
	defer cancel()
	circ, err := c.cfg.Network.To(within, t, p.Specs)
	if err != nil && ctx.Err() == nil {
		h.note(p, func(s *pointState) { s.unreachable++ })
	}
	return circ, err
}

// ready waits for the rendezvous point and the proof of work.
func (a *attempt) ready(ctx context.Context) (*cell.PoW, error) {
	if err := a.rendezvousPoint(ctx); err != nil {
		return nil, err
	}
	return a.proofs.take(ctx)
}

// rendezvousPoint waits for the rendezvous point that is being made. If it fails, others are
// tried.
func (a *attempt) rendezvousPoint(ctx context.Context) error {
	return a.awaitRendezvous(ctx, func() *pendingRend { return a.c.startRendezvous(ctx, a.stable) })
}

func (a *attempt) awaitRendezvous(ctx context.Context, begin func() *pendingRend) error {
	for try := 1; a.rend == nil; try++ {
		if a.pending == nil {
			a.pending = begin()
		}
		m := <-a.pending.done
		a.pending = nil
		switch {
		case m.err == nil:
			a.rend = m.rend
		case ctx.Err() != nil:
			return m.err
		case a.c.cfg.Limit != nil && errors.Is(m.err, errNotEstablished):
			try-- // as in C tor: one that is silent took its time, so others do not follow without end
		case try == maxRendezvous:
			return m.err
		default:
			a.c.cfg.Log.Debug("no rendezvous point", "err", m.err)
		}
	}
	return nil
}

// introduceAndAwait introduces this client at the point, and waits for the service.
func (a *attempt) introduceAndAwait(ctx context.Context, p *netdoc.HSIntroPoint, pow *cell.PoW) (*circuit.Hop, error) {
	if hop := a.rend.came(); hop != nil {
		return hop, nil // through the point before, which had not answered
	}
	err := a.introduce(ctx, p, pow)
	a.endIntroduction()
	if err != nil {
		if hop := a.rend.came(); hop != nil {
			return hop, nil
		}
		if ctx.Err() != nil {
			a.race.failed(ErrIntroTimeout, true) // the wait may be longer than the attempt, which tells what it waited for
		}
		return nil, err
	}
	a.race.introduced(p, pow)
	began := time.Now()
	hop, err := a.await(ctx)
	a.race.history.noteWait(p, err == nil, time.Since(began))
	return hop, err
}

// await waits for the introduced service.
func (a *attempt) await(ctx context.Context) (*circuit.Hop, error) {
	if a.race.serial() {
		hop, err := a.c.awaitSerial(ctx, a.rend)
		if ctx.Err() != nil {
			a.race.failed(errNotCome, false)
		}
		return hop, err
	}
	return awaitService(ctx, a.rend, a.race.slow)
}

// introduce introduces this client at one point, and notes a failure.
func (a *attempt) introduce(ctx context.Context, p *netdoc.HSIntroPoint, pow *cell.PoW) error {
	within, cancel := a.c.limit(ctx, cbt.IntroductionTaken, introduceTimeout, errIntroLate)
	defer cancel()
	ahead := a.draft
	a.draft = nil // introduce uses or drops it
	err := a.c.introduce(within, a.desc, p, a.intro, a.rend, pow, ahead)
	if err == nil || ctx.Err() != nil {
		return err
	}
	a.race.history.note(p, func(s *pointState) {
		switch {
		case errors.Is(err, ErrIntroTimeout):
			s.late = true
		case a.intro.Engine().Err() != nil && !errors.Is(err, errRefused):
			s.unreachable++
		default:
			s.refused = true
		}
	})
	return err
}

// awaitService waits for an introduced service. If that takes long, it says so on slow.
func awaitService(ctx context.Context, rend *rendCircuit, slow chan<- struct{}) (*circuit.Hop, error) {
	early, late := time.NewTimer(slowService), time.NewTimer(rendezvousTimeout)
	defer early.Stop()
	defer late.Stop()
	engine := rend.circ.Engine()
	for {
		select {
		case hop := <-rend.joined:
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

// takeCircuit returns the circuit, which is the caller's from now on.
func (a *attempt) takeCircuit() OwnedCircuit {
	circ := a.rend.circ
	a.rend = nil
	return circ
}

// release gives back all that the attempt has taken.
func (a *attempt) release() {
	a.cancel()
	a.endIntroduction()
	a.dropRendezvous()
	if a.pending != nil { // it may still be under way; its context ends with the race
		a.c.closeLater(a.pending)
		a.pending = nil
	}
}

// endIntroduction gives back what was for one introduction point.
func (a *attempt) endIntroduction() {
	a.takeDraft()
	a.draft.drop()
	a.draft = nil
	if a.intro != nil {
		a.c.leaveIntro(a.intro)
		a.intro = nil
	}
}

// takeDraft waits for the draft that is being made.
func (a *attempt) takeDraft() {
	if a.drafting != nil {
		a.draft = <-a.drafting
		a.drafting = nil
	}
}

func (a *attempt) dropRendezvous() {
	if a.rend != nil {
		a.rend.close()
		a.rend = nil
	}
}
