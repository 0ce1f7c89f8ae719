package client

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
)

// buildSet builds both legs of a conflux set at the same time. Where there cannot be two, one circuit has to do.
func (c *Client) buildSet(ctx context.Context, spec pool.Spec) (*OpenCircuit, error) {
	first, second := spec, spec
	first.NeedExit = append(first.NeedExit, path.Conflux, path.CongestionControl)
	paths, err := c.choosePair(&first, &second)
	if err != nil {
		return nil, err
	}
	if len(paths) == 1 {
		return c.buildOver(ctx, paths[0], &first, order{id: c.ids.Add(1), purpose: purposeOf(&first)})
	}
	legs, errs := c.buildLegs(ctx, &setLegs{specs: [2]*pool.Spec{&first, &second}, paths: [2]*path.Path(paths), again: c.legRetries(), choose: c.chooseFor})
	switch {
	case errs[1] != nil && errs[0] == nil:
		return legs[0], errs[0]
	case errs[0] != nil && errs[1] == nil:
		return legs[1], nil
	case errs[0] != nil:
		return nil, errs[0]
	}
	set, err := c.linkSet(ctx, legs[0], legs[1])
	if err != nil {
		for _, l := range legs {
			l.Close()
		}
	}
	return set, err
}

// setLegs are the legs of a set under construction.
type setLegs struct {
	mu     sync.Mutex // guards what follows
	specs  [2]*pool.Spec
	paths  [2]*path.Path
	failed [2]bool
	again  int // how many legs may still be begun in place of late ones
	choose func(*pool.Spec) (*path.Path, error)
}

// legRetries returns how many legs of a set may be begun in place of others.
func (c *Client) legRetries() int {
	d := c.dirs.Directory()
	if d == nil {
		return 0
	}
	return int(d.Param("cfx_max_unlinked_leg_retry", 3, 0, math.MaxUint8))
}

// buildLegs builds both legs.
func (c *Client) buildLegs(ctx context.Context, s *setLegs) (legs [2]*OpenCircuit, errs [2]error) {
	var wg sync.WaitGroup
	for i := range legs {
		wg.Go(panics.Contain(c.log, func(err error) { errs[i] = err }, func() { legs[i], errs[i] = c.buildLeg(ctx, s, i) }))
	}
	wg.Wait()
	return legs, errs
}

// buildLeg builds one leg. If it is late, another one to the same exit takes its place at once, as in C tor, which does not look for
// that once a second only (conflux_pool.c, unlinked_circuit_closed).
func (c *Client) buildLeg(ctx context.Context, s *setLegs, i int) (*OpenCircuit, error) {
	p, spec := s.leg(i)
	for {
		spec.Late = nil // the set is not late if a leg is
		circ, err := c.buildOver(ctx, p, spec, order{id: c.ids.Add(1), purpose: purposeOf(spec)})
		if !errors.Is(err, pool.ErrLate) || !s.another(c, i) {
			s.over(i, err)
			return circ, err
		}
		p, spec = s.leg(i)
	}
}

func (s *setLegs) leg(i int) (*path.Path, *pool.Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths[i], s.specs[i]
}

func (s *setLegs) over(i int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[i] = err != nil
}

// another chooses another path for a leg, if the other leg is still there.
func (s *setLegs) another(c *Client, i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.again == 0 || s.failed[1-i] {
		return false
	}
	s.again--
	was, other := s.specs[i], s.paths[1-i]
	exit := other.Exit()
	spec := pool.Spec{Spec: path.Spec{Dests: was.Dests, Stable: was.Stable, Last: &exit.Target}, Country: was.Country, Slow: was.Slow}
	c.keepApart(&spec.Spec, other)
	p, err := s.choose(&spec)
	if err != nil {
		c.log.Debug("no other leg", "err", err)
		return false
	}
	s.specs[i], s.paths[i] = &spec, p
	return true
}
