package client

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
)

// setBuild makes one conflux set, leg by leg, as C tor's clients do (conflux_pool.c), which their guards and the exit see:
//
//   - each leg is linked when it is built;
//   - one that fails, is late or is linked too slowly makes room for another one to the same exit, as long as
//     the consensus allows, and another leg is left. Without any the set is over;
//   - when a leg is linked and no other one is waited for, the legs that there are become the set;
//   - a leg that nobody replaces any more leaves the others as they are. They are no set, and close when they are as old as
//     an unused circuit may become. Until then no other set takes the place of this one.
//
// One goroutine decides all of it, in run.
type setBuild struct {
	works    setWorks
	log      *slog.Logger
	wg       *sync.WaitGroup // counts the goroutines of legs
	base     context.Context // of what they do
	launches int             // that may still be made
	idle     time.Duration   // how old a leg becomes that is built, and in no set

	legs   []*setLeg // that the set has at the moment
	events chan legEvent
	over   chan struct{} // closed at the end of run: nobody takes events
	err    error         // why the last leg was lost
}

// setWorks does the work on legs.
type setWorks interface {
	// choose chooses the path of a leg beside others.
	choose(others []*path.Path) (*path.Path, error)
	// build builds a leg. It calls late when that takes longer than a circuit may.
	build(ctx context.Context, p *path.Path, late func()) (builtLeg, error)
	// link links it, or closes it.
	link(ctx context.Context, c builtLeg) error
	// join makes the set of linked legs, or closes them.
	join(legs []builtLeg) (*OpenCircuit, error)
	// swept returns what is closed when old circuits are to be closed.
	swept() <-chan struct{}
}

// builtLeg is an OpenCircuit, but for tests.
type builtLeg interface {
	Done() <-chan struct{}
	Err() error
	Close()
}

// setLeg is a leg of a set that is being made.
type setLeg struct {
	path   *path.Path
	began  time.Time
	cancel context.CancelCauseFunc
	circ   builtLeg // nil: it is being built
	linked bool
}

// legEvent is what happened to a leg.
type legEvent struct {
	leg   *setLeg
	step  legStep
	circ  builtLeg    // that was built
	goOn  chan<- bool // told whether the set wants it
	cause error       // of a loss
}

type legStep uint8

const (
	legLate legStep = iota
	legBuilt
	legLinked
	legLost
)

// run makes a set of so many legs, of which the first has this path.
func (s *setBuild) run(ctx context.Context, first *path.Path, legs int) (*OpenCircuit, error) {
	s.events, s.over = make(chan legEvent), make(chan struct{})
	defer close(s.over)
	s.launch(first)
	for len(s.legs) < legs && s.launchAnother() {
	}
	swept := s.works.swept()
	for len(s.legs) > 0 {
		select {
		case e := <-s.events:
			if set, err, done := s.take(e); done {
				return set, err
			}
		case <-swept:
			swept = s.works.swept()
			s.closeOld(time.Now())
		case <-ctx.Done():
			err := fault.New(fault.Closed, "build conflux set: %w", context.Cause(ctx))
			s.end(err)
			return nil, err
		}
	}
	return nil, s.err
}

// take takes an event; done says that the set is complete, or over.
func (s *setBuild) take(e legEvent) (set *OpenCircuit, err error, done bool) {
	l, mine := e.leg, slices.Contains(s.legs, e.leg)
	if e.goOn != nil {
		e.goOn <- mine
	}
	switch {
	case !mine:
	case e.step == legLate && l.circ == nil:
		s.lose(l, pool.ErrLate) // it is built nevertheless: times are learned from it
	case e.step == legBuilt:
		l.circ = e.circ
	case e.step == legLinked:
		l.linked = true
		return s.tryJoin()
	case e.step == legLost && errors.Is(e.cause, circuit.ErrLinkFalse):
		s.end(e.cause)
		return nil, e.cause, true
	case e.step == legLost:
		s.lose(l, e.cause)
	}
	return nil, nil, false
}

// tryJoin makes the set if no leg is waited for.
func (s *setBuild) tryJoin() (set *OpenCircuit, err error, done bool) {
	var circs []builtLeg
	for _, l := range s.legs {
		if !l.linked || l.circ.Err() != nil { // which will be told
			return nil, nil, false
		}
		circs = append(circs, l.circ)
	}
	set, err = s.works.join(circs)
	return set, err, true
}

// lose takes a leg out of the set, and launches another one if any is left.
func (s *setBuild) lose(l *setLeg, cause error) {
	s.legs = slices.DeleteFunc(s.legs, func(o *setLeg) bool { return o == l })
	s.err = cause
	s.log.Debug("a conflux leg was lost", "left", len(s.legs), "launches", s.launches, "err", cause)
	if len(s.legs) > 0 {
		s.launchAnother()
	}
}

// launchAnother launches a leg beside the others. A path that cannot be chosen is a launch that fails.
func (s *setBuild) launchAnother() bool {
	var others []*path.Path
	for _, l := range s.legs {
		others = append(others, l.path)
	}
	for s.launches > 0 && s.base.Err() == nil {
		p, err := s.works.choose(others)
		if err == nil {
			s.launch(p)
			return true
		}
		s.launches--
		s.log.Debug("no path for a conflux leg", "err", err)
	}
	return false
}

func (s *setBuild) launch(p *path.Path) {
	s.launches--
	ctx, cancel := context.WithCancelCause(s.base)
	l := &setLeg{path: p, began: time.Now(), cancel: cancel}
	s.legs = append(s.legs, l)
	lost := func(err error) { s.tell(legEvent{leg: l, step: legLost, cause: err}) }
	s.wg.Go(panics.Contain(s.log, lost, func() {
		defer cancel(nil)
		if err := s.make(ctx, l); err != nil {
			lost(err)
		}
	}))
}

// make builds and links a leg, and returns when it was lost, or the set is made without it or with it.
func (s *setBuild) make(ctx context.Context, l *setLeg) error {
	c, err := s.works.build(ctx, l.path, func() { s.tell(legEvent{leg: l, step: legLate}) })
	if err != nil {
		return err
	}
	wanted := make(chan bool, 1)
	if !s.tell(legEvent{leg: l, step: legBuilt, circ: c, goOn: wanted}) || !<-wanted {
		c.Close()
		return nil
	}
	if err := s.works.link(ctx, c); err != nil {
		return err
	}
	s.tell(legEvent{leg: l, step: legLinked})
	select {
	case <-c.Done():
		return fault.New(fault.KindOf(c.Err()), "build conflux set: a leg ended: %w", c.Err())
	case <-s.over:
		return nil
	}
}

// tell has run take an event, and reports whether it did.
func (s *setBuild) tell(e legEvent) bool {
	select {
	case s.events <- e:
		return true
	case <-s.over:
		return false
	}
}

// closeOld closes the legs that are too old for circuits that nobody uses. That they are lost is told.
func (s *setBuild) closeOld(now time.Time) {
	for _, l := range s.legs {
		if l.circ != nil && now.Sub(l.began) >= s.idle {
			l.circ.Close()
		}
	}
}

// end closes all legs.
func (s *setBuild) end(cause error) {
	for _, l := range s.legs {
		l.cancel(cause)
		if l.circ != nil {
			l.circ.Close()
		}
	}
	s.legs = nil
}
