package client

import (
	"context"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
)

// onionPQ returns the policy for the hop between an onion service and its client
// (docs/spec/pq-onions.md, section 6).
func (c *Config) onionPQ() circuit.PQPolicy {
	if c.RequireOnionPQ {
		return circuit.PQRequireAll
	}
	return c.PQ
}

// assume sets what a relay can do of which only link specifiers and an onion key are known:
// what the consensus requires of every relay. Authorities of C tor 0.4.9.15 require CGO, for
// this purpose. Whether the directory lists the relay makes no difference: whoever named it
// could learn from that which consensus this client has.
func (c *Client) assume(t *linkspec.Target) {
	if all := c.ofRelays.Load(); t.Proto.IsZero() && all != nil {
		t.Proto = *all
	}
}

// lastHop says how to extend a circuit to a relay of an onion service's or a client's
// choice. Only PQRequireAll asks for protection there; elsewhere what every relay speaks is
// enough for relays that a stranger names, as stock programs use it.
func (n clientNetwork) lastHop(from linkspec.Target, to *linkspec.Target, opts *circuit.HopOptions) (circuit.Protection, error) {
	if n.cfg.PQ != circuit.PQRequireAll {
		return circuit.Protection{}, nil
	}
	if d := n.dirs.Directory(); d != nil {
		if r, ok := d.Lookup(to.RSA); ok {
			advertised(to, r)
		}
	}
	plan, err := n.cfg.PQ.Plan(n.cfg.PQSet, []linkspec.Target{from, *to})
	if err != nil {
		return circuit.Protection{}, fault.New(fault.KindOf(err), "onion service: the circuit's last hop: %w", err)
	}
	if plan[1].Carriage == handshake.CarriageA {
		opts.Handshake = plan[1].Set.Kind()
	}
	return plan[1], nil
}

// advertised sets what a relay can do. Link specifiers do not say it, and a stranger who
// names the relay must not decide about it: the signed directory says it.
func advertised(t *linkspec.Target, r netdir.Relay) {
	if known := r.Target(); known.Ed == t.Ed && known.Ntor == t.Ntor {
		t.Proto = known.Proto
	}
}

// onlyHop says how to make a circuit of one hop to a relay of the directory: protected,
// if the configuration demands that for every circuit. See lastHop.
func (n clientNetwork) onlyHop(t *linkspec.Target, r netdir.Relay) ([]circuit.Protection, error) {
	if n.cfg.PQ != circuit.PQRequireAll && n.cfg.PQ != circuit.PQRequireOne {
		return nil, nil
	}
	advertised(t, r)
	return n.cfg.PQ.Plan(n.cfg.PQSet, []linkspec.Target{*t})
}

// extendOnion extends a circuit, whose last relay is from, to such a relay.
func (n clientNetwork) extendOnion(ctx context.Context, circ *OpenCircuit, from, t linkspec.Target, specs []linkspec.Spec) error {
	opts := n.hopOptions()
	opts.Specs = specs
	n.assume(&t)
	p, err := n.lastHop(from, &t, &opts)
	if err != nil {
		return err
	}
	// What happens from now on is not the guard's doing: the last relay is a
	// stranger's choice.
	circ.once.Do(func() { circ.byUs = true })
	circ.longer.Store(true)
	if err := circ.Extend(ctx, t, opts); err != nil {
		return err
	}
	if p.Carriage == handshake.CarriageB {
		if err := circ.Last().Rekey(ctx, p.Set); err != nil {
			return err
		}
	}
	circ.life.further(n.router(t.RSA))
	return nil
}
