package client

import (
	"context"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/protover"
)

// buildSet builds a conflux set. Where no exit can have any, one circuit has to do.
func (c *Client) buildSet(ctx context.Context, spec pool.Spec) (*OpenCircuit, error) {
	n := c.sets.Load()
	linking, err := circuit.NewLinking(cell.ConfluxHighThroughput)
	if err != nil {
		return nil, err
	}
	w := &setLegs{c: c, spec: spec, linking: linking}
	w.spec.Slow, w.spec.Late = nil, nil // nobody waits for a leg
	p, err := w.choose(nil)
	if err != nil {
		if p, err = c.chooseFor(&spec); err != nil {
			return nil, err
		}
	}
	if exit := p.Exit(); n == nil || n.legs == 0 || !exit.Target.Proto.Has(protover.Conflux, protover.ConfluxV1) || exit.Relay.IsZero() {
		return c.buildOver(ctx, p, &spec, order{id: c.ids.Add(1), purpose: purposeOf(&spec)})
	}
	s := &setBuild{works: w, log: c.log, wg: &c.legs, base: c.ctx, launches: n.launches, idle: spec.Idle}
	return s.run(ctx, p, n.legs)
}

// setLegs does the work on the legs of one set.
type setLegs struct {
	c       *Client
	spec    pool.Spec
	linking *circuit.Linking
}

func (w *setLegs) choose(others []*path.Path) (*path.Path, error) {
	spec := w.spec
	if len(others) == 0 {
		spec.NeedExit = append(spec.NeedExit, path.Conflux, path.CongestionControl)
	} else {
		spec.Last = &others[0].Exit().Target
	}
	for _, p := range others {
		w.c.keepApart(&spec.Spec, p)
	}
	return w.c.chooseFor(&spec)
}

func (w *setLegs) build(ctx context.Context, p *path.Path, late func()) (builtLeg, error) {
	spec := w.spec
	spec.Late = late // the set is not late if a leg is
	circ, err := w.c.buildOver(ctx, p, &spec, order{id: w.c.ids.Add(1), purpose: ForSet})
	if err != nil {
		return nil, err
	}
	return circ, nil
}

func (w *setLegs) link(ctx context.Context, l builtLeg) error {
	circ := l.(*OpenCircuit)
	if err := w.linking.Link(ctx, circ.Circuit, w.c.tooSlow); err != nil {
		return &pool.HopError{Relay: circ.Exit(), Err: err}
	}
	return nil
}

// tooSlow reports whether a leg whose exit took so long to link it is worth less than another one: what C tor allows for all of
// its handshakes together.
func (c *Client) tooSlow(rtt time.Duration) bool {
	var usage time.Duration
	c.times.use(func(e *cbt.Estimator) { usage, _ = e.Timeouts(path.DefaultHops) })
	return rtt >= usage
}

func (w *setLegs) join(legs []builtLeg) (*OpenCircuit, error) {
	var circs []*circuit.Circuit
	of := map[*circuit.Circuit]*OpenCircuit{}
	for _, l := range legs {
		o := l.(*OpenCircuit)
		circs, of[o.Circuit] = append(circs, o.Circuit), o
	}
	set, err := w.linking.Join(circs)
	if err != nil {
		return nil, err
	}
	order := set.Legs() // without one that has just ended
	first := of[order[0]]
	for _, circ := range order[1:] {
		first.legs = append(first.legs, of[circ])
	}
	w.c.joined(first)
	return first, nil
}

func (w *setLegs) swept() <-chan struct{} { return w.c.sweeps.wait() }
