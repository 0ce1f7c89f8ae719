package client

import (
	"context"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
)

// addition is what one command of a controller adds to a circuit.
type addition struct {
	hops    []path.Hop
	protect []circuit.Protection // of each hop
}

// ExtendCircuit adds hops to a circuit for streams, over relays that a controller names, the nearest first. It checks
// what can be known at once; the rest is told as the circuit's steps. The circuit gets no further streams but those that
// a controller attaches: its end is none that the client has chosen. One that a controller had built may still be being built.
func (c *Client) ExtendCircuit(id uint64, relays []netdir.Relay) error {
	l := c.lives.circuit(id)
	if l == nil {
		return ErrUnknown
	}
	if len(relays) == 0 {
		return ErrLongPath
	}
	p, err := c.steeredPath(relays)
	if err != nil {
		return err
	}
	return l.add(p.Hops)
}

func (l *circuitLife) add(hops []path.Hop) error {
	free, err := l.extensible(hops)
	if err != nil {
		return err
	}
	// The pool knows only circuits that are whole: not the first leg of a set that waits for the second.
	if free != nil && !l.c.pool.Load().Steer(free) {
		return ErrNotOpen
	}
	return l.extend(hops)
}

// extensible returns an error if the hops cannot be added now, and the circuit if no controller has steered it yet.
func (l *circuitLife) extensible(hops []path.Hop) (*OpenCircuit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.planLocked(hops); err != nil || l.orders != nil {
		return nil, err
	}
	return l.circ, nil
}

// planLocked checks hops that are to be added, and says what will protect each.
func (l *circuitLife) planLocked(hops []path.Hop) ([]circuit.Protection, error) {
	switch {
	case l.end || l.told:
		return nil, ErrUnknown
	case l.r.Purpose != ForStreams && l.r.Purpose != ForController:
		return nil, ErrNotForThese
	case l.orders == nil && (l.circ == nil || l.r.Step != CircuitBuilt):
		return nil, ErrNotOpen
	case l.circ != nil && !l.circ.CanExtend(len(hops)):
		return nil, ErrNotExtensible
	}
	all := slices.Concat(l.route, hops)
	if len(all) > maxSteeredHops || !inTurn(all) {
		return nil, ErrLongPath
	}
	plan, err := l.c.cfg.PQ.Plan(l.c.cfg.PQSet, (&path.Path{Hops: all}).Targets())
	if err != nil {
		return nil, err
	}
	return plan[len(l.route):], nil
}

// extend orders hops, and begins to follow the circuit if nobody does.
func (l *circuitLife) extend(hops []path.Hop) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	plan, err := l.planLocked(hops)
	if err != nil {
		return err
	}
	if l.orders == nil {
		orders, circ := make(chan addition, maxSteeredHops), l.circ
		if err := l.c.steer(func() { l.c.follow(circ, orders) }); err != nil {
			return err
		}
		l.orders = orders
	}
	l.orders <- addition{hops, plan} // there is room: each order has one hop at least, and all hops are bounded
	l.route = slices.Concat(l.route, hops)
	if l.r.Step == CircuitBuilt {
		l.r.Step = CircuitExtended // it is not whole any more: no stream is attached, and if it ends now, it has failed
	}
	return nil
}

// steer runs f, which follows one more circuit that is a controller's.
func (c *Client) steer(f func()) error {
	if c.steered.Add(1) > maxSteered {
		c.steered.Add(-1)
		return ErrManyCircuits
	}
	err := c.lives.run(c, func() {
		defer c.steered.Add(-1)
		f()
	})
	if err != nil {
		c.steered.Add(-1)
	}
	return err
}

// inTurn reports whether no relay follows on itself, or on one that has itself before: relays refuse to extend so.
func inTurn(hops []path.Hop) bool {
	for i, h := range hops {
		for _, before := range hops[max(i-2, 0):i] {
			if before.Target.RSA == h.Target.RSA {
				return false
			}
		}
	}
	return true
}

// follow adds to a circuit what controllers order, until it ends.
func (c *Client) follow(circ *OpenCircuit, orders <-chan addition) {
	for {
		select {
		case a := <-orders:
			if err := circ.extendBy(c.ctx, a); err != nil {
				c.log.Debug("a controller's circuit could not be extended", "circuit", circ.id, "err", err)
				return // it is closed, which was told
			}
		case <-circ.Done():
			return
		case <-c.ctx.Done():
			return
		}
	}
}

// extendBy adds the hops of one order. After an error the circuit is closed.
func (c *OpenCircuit) extendBy(ctx context.Context, a addition) error {
	c.excused.Store(true) // what happens from now on is not the guard's doing: a controller has chosen the relays
	var limit time.Duration
	n := len(c.hops())
	c.client.times.use(func(e *cbt.Estimator) { _, limit = e.Timeouts(n + len(a.hops)) })
	ctx, cancel := context.WithTimeoutCause(ctx, max(limit, minUsage), errBuildTimeout)
	defer cancel()
	for i, h := range a.hops {
		opts, p := c.client.hopOptions(), a.protect[i]
		if p.Carriage == handshake.CarriageA {
			opts.Handshake = p.Set.Kind()
		}
		if err := c.Extend(ctx, h.Target, opts); err != nil {
			return err
		}
		if p.Carriage == handshake.CarriageB {
			if err := c.Last().Rekey(ctx, p.Set); err != nil {
				return err
			}
		}
		c.addHop(h)
		c.life.grown(c.client.router(h.Target.RSA))
	}
	c.life.wholeAgain()
	return nil
}

// wholeAgain notes that all hops are there, unless more were ordered.
func (l *circuitLife) wholeAgain() {
	l.mu.Lock()
	more := len(l.orders) > 0
	l.mu.Unlock()
	if !more {
		l.whole()
	}
}

// hops returns the circuit's hops, the nearest first: those of its path, and those that a controller has added.
func (c *OpenCircuit) hops() []path.Hop {
	if all := c.grown.Load(); all != nil {
		return *all
	}
	return c.path.Hops
}

// exit returns the last hop.
func (c *OpenCircuit) exit() path.Hop { h := c.hops(); return h[len(h)-1] }

// addHop notes a further hop. One goroutine follows a circuit.
func (c *OpenCircuit) addHop(h path.Hop) {
	all := append(slices.Clip(c.hops()), h)
	c.grown.Store(&all)
}
