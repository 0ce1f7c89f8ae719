package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
)

// A circuit takes these steps:
//
//	choose the path, and what protects it     buildCircuit, choosePath
//	open the link to the guard                openLink
//	build hop after hop                       buildHops, hopBuilt
//	await the guard's turn                    awaitTurn
//	report a failure to guard and estimator   reportFailure            buildoutcome.go
//	stop to wait for it when it is late       untilLate                late.go
//	add a second leg, if the user wants one   addLeg, linkSet          conflux.go
//	or build a set ahead, leg by leg          buildSet, setBuild       setlegs.go, setbuild.go
//
// All between are an attempt's, a building, which answers to the guard exactly once.

// Build implements pool.Builder.
func (c *Client) Build(ctx context.Context, spec pool.Spec) (pool.PooledCircuit, error) {
	circ, err := c.buildAny(ctx, spec)
	if err != nil {
		return nil, err
	}
	c.noteFirstCircuit()
	return circ, nil
}

// buildAny builds a circuit or a conflux set. As in C tor, sets are built ahead only, unless the user demands
// them.
func (c *Client) buildAny(ctx context.Context, spec pool.Spec) (*OpenCircuit, error) {
	if spec.Set {
		return c.buildSet(ctx, spec)
	}
	circ, err := c.buildCircuit(ctx, spec)
	if err != nil || !c.cfg.Fast && c.cfg.Conflux != On {
		return circ, err
	}
	with, err := c.addLeg(ctx, spec, circ)
	if err != nil {
		circ.Close()
		return nil, err
	}
	return with, nil
}

// noteFirstCircuit notes that a circuit was built.
func (c *Client) noteFirstCircuit() {
	c.firstOnce.Do(func() {
		c.bootProgress(100, "ready") // first, because a caller that waited may look at it
		close(c.firstCirc)
	})
}

// buildCircuit chooses a path and builds one circuit over it.
func (c *Client) buildCircuit(ctx context.Context, spec pool.Spec) (*OpenCircuit, error) {
	return c.buildFor(ctx, spec, order{purpose: purposeOf(&spec), id: c.ids.Add(1)})
}

// order says what a circuit is for, and its number. keep, if it is not nil, takes the circuit before others hear that
// it is built. begun, if it is not nil, is told when the circuit can be found by its number, and asked when its link is open.
type order struct {
	purpose Purpose
	id      uint64
	keep    func(*OpenCircuit) error
	begun   func(*circuitLife)
	asked   func() // nil, or told when the link is open
}

// purposeOf says what a circuit of the pool is for.
func purposeOf(spec *pool.Spec) Purpose {
	switch {
	case len(spec.Dests) == 0:
		return ForOnions
	case spec.Last != nil:
		return ForSet
	}
	return ForStreams
}

func (c *Client) buildFor(ctx context.Context, spec pool.Spec, o order) (circ *OpenCircuit, err error) {
	p, err := c.chooseFor(&spec)
	if err != nil {
		return nil, err
	}
	return c.buildOver(ctx, p, &spec, o)
}

// chooseFor chooses the relays of a circuit of the pool.
func (c *Client) chooseFor(spec *pool.Spec) (p *path.Path, err error) {
	d := c.dirs.Directory()
	now := time.Now()
	if d == nil || !c.dirs.Ready(d, now) {
		return nil, fault.New(fault.Directory, "build circuit: there is no usable directory yet")
	}
	if spec.ExitIn, err = c.live.Load().Countries.exits(spec.Country); err != nil {
		return nil, err
	}
	return c.choosePath(d, &spec.Spec, now)
}

// buildOver builds a circuit over a path.
func (c *Client) buildOver(ctx context.Context, p *path.Path, spec *pool.Spec, o order) (circ *OpenCircuit, err error) {
	now := time.Now()
	protect, err := c.cfg.PQ.Plan(c.cfg.PQSet, p.Targets())
	if err != nil {
		if p.Guard != nil {
			p.Guard.Cancelled(now)
		}
		return nil, err
	}
	b := &building{protect: protect, Client: c, id: o.id, path: p, slow: spec.Slow, start: now, keep: o.keep, linked: o.asked, leg: o.purpose == ForSet}
	asker := ctx
	if !c.cfg.Fast {
		ctx = context.WithoutCancel(ctx) // it may go on for longer: see untilLate
	}
	ctx, stop := context.WithCancelCause(ctx)
	b.life = c.begin(o.id, p, o.purpose, spec.Stable, stop)
	if o.begun != nil {
		o.begun(b.life)
	}
	c.making.Add(1)
	defer c.making.Add(-1)
	if !c.cfg.Fast {
		c.times.use(func(e *cbt.Estimator) { e.Launched(now) })
	}
	c.m.launched.Inc()
	c.cfg.Hooks.circuit(CircuitInfo{ID: b.id, State: Opening, Purpose: o.purpose})
	if c.cfg.Fast {
		defer stop(nil)
		circ, err = b.run(ctx)
	} else {
		circ, err = b.untilLate(asker, ctx, stop, spec.Late)
	}
	if err != nil {
		b.life.over(CircuitFailed, err) // unless its own end was first
		c.m.failed.Inc()
		took := b.hopTimes()
		c.cfg.Hooks.circuit(CircuitInfo{ID: b.id, State: Failed, Purpose: o.purpose, Hops: len(took), Took: took, Err: err})
		return nil, err
	}
	return circ, nil
}

// choosePath chooses the relays of a circuit.
func (c *Client) choosePath(d *netdir.Directory, s *path.Spec, now time.Time) (*path.Path, error) {
	c.addNeeds(d, s, now)
	p, err := c.live.Load().Path.Choose(d, c.guards, newRand(), s, now)
	if fault.Is(err, fault.Config) && s.ExitIn.IsZero() { // trying again does not help any stream
		c.problem(err)
	}
	return p, err
}

// addNeeds adds what the configuration demands of every hop or of the exit.
func (c *Client) addNeeds(d *netdir.Directory, s *path.Spec, now time.Time) {
	if c.cfg.CGO == On {
		s.NeedAll = append(s.NeedAll, path.CGO, path.CongestionControl)
	}
	switch pq := path.PostQuantum(c.cfg.PQSet); c.cfg.PQ {
	case circuit.PQRequireAll:
		s.NeedAll = append(s.NeedAll, pq)
	case circuit.PQRequireOne:
		s.NeedOne = append(s.NeedOne, pq)
	}
	if c.cfg.Congestion == On {
		s.NeedExit = append(s.NeedExit, path.CongestionControl)
	}
	if len(s.Dests) == 0 && s.Last == nil {
		s.NeedExit = append(s.NeedExit, path.Rendezvous)
		cfg := &c.live.Load().Path
		s.Layers = c.vanguards.Layers(d, cfg.VanguardAllowed(d, s.NeedAll), newRand(), now)
	}
	if c.cfg.Conflux == On && len(s.Dests) > 0 {
		s.NeedExit = append(s.NeedExit, path.Conflux, path.CongestionControl)
	}
}

// hopOptions says what to offer to relays, as the configuration allows. The consensus has no
// word in it: a cc_alg of 0 would take CGO from all circuits, and C tor's clients obey it no
// more since 0.4.9.12. A relay that is asked for CGO is asked for congestion control too: C
// tor takes both or neither.
func (c *Client) hopOptions() circuit.HopOptions {
	cc := c.cfg.Congestion != Off || c.cfg.CGO == On
	return circuit.HopOptions{Congestion: cc, CGO: cc && c.cfg.CGO != Off, Flow: c.flow.Load(), Path: flow.PathExit, OneAddress: !c.cfg.Fast}
}

// building is one circuit under construction.
type building struct {
	*Client
	id      uint64
	life    *circuitLife
	keep    func(*OpenCircuit) error // see order
	linked  func()                   // order's asked
	leg     bool                     // of a conflux set. An exit can end it as it likes, and another one follows: the guard is not blamed
	path    *path.Path
	slow    func()
	start   time.Time
	protect []circuit.Protection
	usage   time.Duration // the usage timeout
	timer   *time.Timer   // runs late; nil if the client looks like C tor's
	late    *lateness     // nil: it is never late
	ch      *channel.Channel
	// asked is when the link was open: the time until then says nothing about circuits. It
	// is written under mu, by the goroutine that builds.
	asked time.Time

	mu       sync.Mutex // guards the fields below
	hops     int        // built
	took     []time.Duration
	timedOut bool // the usage timeout has passed
	tooLate  bool // nobody gets the circuit
}

func (b *building) run(ctx context.Context) (*OpenCircuit, error) {
	closing, stop := b.watchTime(len(b.path.Hops))
	defer stop()
	circ, err := b.buildHops(ctx, max(closing, minUsage))
	now := time.Now()
	u := b.path.Guard
	if errors.Is(err, pool.ErrLate) {
		b.measured(now)
		return nil, err
	}
	if err != nil {
		b.reportFailure(ctx, err, now)
		return nil, err
	}
	if u != nil {
		if circ, err = b.awaitTurn(ctx, circ, u.Succeeded(now)); err != nil {
			return nil, err
		}
	}
	circ.usable.Store(true)
	if b.keep != nil {
		if err := b.keep(circ); err != nil {
			circ.Close()
			return nil, err
		}
	}
	b.life.built()
	return circ, nil
}

// awaitTurn waits until the guard's decision about a circuit is there, and closes the circuit if it is
// against it.
func (b *building) awaitTurn(ctx context.Context, circ *OpenCircuit, first guard.Decision) (*OpenCircuit, error) {
	u := b.path.Guard
	if first == guard.Wait {
		if b.slow != nil {
			b.slow()
		}
		select {
		case <-u.Decided():
		case <-ctx.Done():
			circ.Close()
			return nil, fault.New(fault.Closed, "build circuit: %w", context.Cause(ctx))
		case <-circ.Done():
		}
	}
	if u.Decision() == guard.UseNow {
		return circ, nil
	}
	if err := circ.Err(); err != nil {
		return nil, fault.New(fault.KindOf(err), "build circuit: it ended before it could be used: %w", err)
	}
	circ.Close()
	return nil, fault.New(fault.Network, "build circuit: its guard is no longer wanted, or better ones were waited for too long")
}

var errBuildTimeout = errors.New("the build timeout passed")

// buildHops opens the channel and builds all hops. Each of the two may take as long as limit:
// what a slow link takes is no time of the circuit.
func (b *building) buildHops(ctx context.Context, limit time.Duration) (*OpenCircuit, error) {
	targets := b.path.Targets()
	opts := b.hopOptions()
	ch, err := b.openLink(ctx, targets[0], limit)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errBuildTimeout)
	defer cancel()
	if targets[0].Ntor.IsZero() {
		opts.Handshake = handshake.Fast
	}
	cc, err := circuit.Build(ctx, b.env, ch, &circuit.Route{
		Targets: targets, Options: opts, Protect: b.protect, Strict: b.cfg.PQ.Strict(),
		Built: func(n int) {
			if n == 2 && b.path.Guard != nil && !b.leg {
				b.path.Guard.Extended()
			}
			b.hopBuilt(n)
		},
	})
	if err != nil {
		var at *circuit.BuildError
		if errors.As(err, &at) && at.Hop > 1 {
			err = &pool.HopError{Relay: targets[at.Hop-1].RSA, Err: err}
		}
		return nil, err
	}
	if b.isTooLate() {
		cc.Close(cell.DestroyNone, errUnused)
		return nil, pool.ErrLate
	}
	circ := &OpenCircuit{Circuit: cc, id: b.id, client: b.Client, path: b.path, life: b.life}
	b.circs.add(circ)
	took := b.hopTimes()
	b.m.built(took, circ.Protection())
	b.cfg.Hooks.circuit(CircuitInfo{ID: b.id, State: Open, Purpose: b.life.report().Purpose, Hops: len(targets), Took: took, Protection: circ.Protection(), Path: circ.Relays(), Names: circ.names()})
	b.life.closes(circ, cc, circ.Close)
	cc.OnClose(circ.ended) // last: the hook hears of the end after the beginning
	return circ, nil
}

// openLink returns an open link to the guard.
func (b *building) openLink(ctx context.Context, t linkspec.Target, limit time.Duration) (*channel.Channel, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errBuildTimeout)
	defer cancel()
	ch, err := b.link(ctx, t)
	if err != nil {
		return nil, err
	}
	if b.linked != nil {
		b.linked()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ch, b.asked = ch, time.Now()
	if b.timer != nil && b.timer.Stop() {
		b.timer.Reset(b.usage)
	}
	return ch, nil
}
