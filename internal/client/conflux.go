package client

import (
	"context"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/protover"
)

// secondLegTimeout is how long a circuit waits for a second leg that it does not
// need.
const secondLegTimeout = 5 * time.Second

var errSecondLeg = fault.New(fault.Timeout, "conflux: the second leg takes too long")

// addLeg makes a conflux set of a circuit to an exit that can do it, by a
// second circuit over another guard. A circuit without a second leg is good
// enough, unless the user asked for conflux. addLeg returns the circuit that has the
// streams; after an error the caller closes first.
func (c *Client) addLeg(ctx context.Context, spec pool.Spec, first *OpenCircuit) (*OpenCircuit, error) {
	want := c.cfg.Conflux
	exit := first.path.Exit()
	if want == Auto && c.confluxEnabled() {
		want = On
	} else if want == Auto {
		want = Off
	}
	if want == Off || len(spec.Dests) == 0 || !exit.Target.Proto.Has(protover.Conflux, protover.ConfluxV1) || !first.Last().Info().Congestion {
		return first, nil
	}
	s := pool.Spec{Spec: path.Spec{Dests: spec.Dests, Stable: spec.Stable, Last: &exit.Target}, Slow: spec.Slow, Late: spec.Late}
	c.keepApart(&s.Spec, first.path)
	// An open circuit must not wait long for a leg that it does not need.
	leg, cancel := ctx, context.CancelFunc(func() {})
	if c.cfg.Conflux != On {
		leg, cancel = context.WithTimeoutCause(ctx, secondLegTimeout, errSecondLeg)
	}
	defer cancel()
	second, err := c.buildCircuit(leg, s)
	if err == nil {
		return c.linkSet(ctx, first, second) // after an error, both are closed
	}
	if c.cfg.Conflux == On {
		return nil, err
	}
	c.log.Debug("no second leg", "err", err)
	return first, first.Err()
}

// keepApart keeps the guard and the middle of one leg out of the other, each from its own place: the
// one's middle may be the other's guard, or a client that has two guards would take a third for that.
func (c *Client) keepApart(s *path.Spec, from *path.Path) {
	for i, h := range from.Hops[:len(from.Hops)-1] {
		switch {
		case i == 0 && c.bridge.few():
		case i == 0:
			s.Exclude = append(slices.Clip(s.Exclude), h.Target.RSA)
		default:
			s.ExcludeMiddle = append(slices.Clip(s.ExcludeMiddle), h.Target.RSA)
		}
	}
}

// linkSet makes one set of two circuits, and returns the one that has its streams. The pool
// knows this one only, with one isolation for the set: the other belongs to it, and ends with
// it or before.
func (c *Client) linkSet(ctx context.Context, first, second *OpenCircuit) (*OpenCircuit, error) {
	set, err := c.linkLegs(ctx, first, second)
	if err != nil {
		return nil, err
	}
	if set.Legs()[0] == second.Circuit {
		first, second = second, first
	}
	first.legs = append(first.legs, second)
	c.joined(first)
	return first, nil
}

// joined notes a new set.
func (c *Client) joined(first *OpenCircuit) {
	for _, leg := range append([]*OpenCircuit{first}, first.legs...) {
		leg.life.purpose(InSet)
	}
	c.m.confluxSets.Inc()
}

var errNotLinked = fault.New(fault.Timeout, "conflux: the exit does not answer")

// linkLegs makes one set of two circuits. It waits for the exit as long as a stream does:
// an exit that never answers must not hold the circuits, and those who wait for them. They
// take another exit then.
func (c *Client) linkLegs(ctx context.Context, first, second *OpenCircuit) (*circuit.ConfluxSet, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.streamTimeout(1), errNotLinked)
	defer cancel()
	set, err := circuit.LinkConflux(ctx, []*circuit.Circuit{first.Circuit, second.Circuit}, cell.ConfluxHighThroughput)
	if err != nil {
		return nil, &pool.HopError{Relay: first.Exit(), Err: err}
	}
	return set, nil
}

// confluxEnabled reads the consensus's parameter.
func (c *Client) confluxEnabled() bool {
	d := c.dirs.Directory()
	return d != nil && d.Param("cfx_enabled", 1, 0, 1) == 1
}
