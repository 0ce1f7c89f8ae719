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
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
)

// Circ is an open circuit with the decisions about it.
type Circ struct {
	*circuit.Circuit
	id     uint64
	client *Client
	path   *path.Path
	took   []time.Duration // until each hop was built
	legs   []*Circ         // further legs of a conflux set
	once   sync.Once
	byUs   bool // guarded by once: closed by this client
}

// Exit implements pool.Circuit.
func (c *Circ) Exit() ident.RSAID { return c.path.Exit().Target.RSA }

// Allows implements pool.Circuit.
func (c *Circ) Allows(dest path.Dest) bool {
	r := c.path.Exit().Relay
	return !r.IsZero() && path.Allows(r, dest)
}

// Leads implements pool.Circuit.
func (c *Circ) Leads(hops int, next ident.RSAID) bool {
	h := c.path.Hops
	n := len(h)
	return n == hops && n > 1 && (next.IsZero() || h[n-1].Target.RSA != next && h[n-2].Target.RSA != next)
}

// Stable implements pool.Circuit.
func (c *Circ) Stable() bool {
	for i, h := range c.path.Hops {
		if i == 0 && c.client.bridge != nil {
			continue // there is no other choice
		}
		if h.Relay.IsZero() || !h.Relay.Has(netdir.FlagStable) {
			return false
		}
	}
	return true
}

// Close implements pool.Circuit. The exit may end the other legs of a set
// before this end does.
func (c *Circ) Close() {
	for _, leg := range append([]*Circ{c}, c.legs...) {
		leg.once.Do(func() { leg.byUs = true })
	}
	c.Circuit.Close(cell.DestroyNone, errUnused)
}

var errUnused = fault.New(fault.Closed, "the circuit is not needed any more")

// ended runs when the circuit has closed.
func (c *Circ) ended(cause error) {
	// An event that ends all legs of a conflux set counts against no guard, nor does an
	// onion service that needs the circuit no more.
	c.once.Do(func() {
		c.byUs = errors.Is(cause, circuit.ErrLegClosed) || errors.Is(cause, circuit.ErrLinkGivenUp) || errors.Is(cause, hsservice.ErrDone)
	})
	if u := c.path.Guard; u != nil {
		u.Closed(time.Now(), c.byUs)
	}
	c.client.forget(c)
	if c.byUs {
		cause = nil
	} else {
		c.client.log.Debug("circuit ended", "circuit", c.id, "cause", cause)
	}
	c.client.cfg.Hooks.circuit(CircuitInfo{ID: c.id, State: Closed, Hops: len(c.path.Hops), Protection: c.Protection(), Err: cause})
}

// Build implements pool.Builder.
func (c *Client) Build(ctx context.Context, spec pool.Spec) (pool.Circuit, error) {
	circ, err := c.buildOne(ctx, spec)
	if err != nil {
		return nil, err
	}
	with, err := c.addLeg(ctx, spec, circ)
	if err != nil {
		circ.Close()
		return nil, err
	}
	c.first()
	return with, nil
}

// first notes that a circuit was built.
func (c *Client) first() {
	c.firstOnce.Do(func() {
		c.bootProgress(100, "ready") // first, because a caller that waited may look at it
		close(c.firstCirc)
	})
}

// buildOne chooses a path and builds one circuit over it.
func (c *Client) buildOne(ctx context.Context, spec pool.Spec) (*Circ, error) {
	d := c.dirs.Directory()
	now := time.Now()
	if d == nil || !c.dirs.Ready(d, now) {
		return nil, fault.New(fault.Directory, "build circuit: there is no usable directory yet")
	}
	p, err := c.choosePath(d, &spec.Spec, now)
	if err != nil {
		return nil, err
	}
	protect, err := c.cfg.PQ.Plan(c.cfg.PQSet, p.Targets())
	if err != nil {
		if p.Guard != nil {
			p.Guard.Cancelled(now)
		}
		return nil, err
	}
	b := &building{protect: protect, Client: c, id: c.ids.Add(1), path: p, slow: spec.Slow, start: now}
	c.making.Add(1)
	defer c.making.Add(-1)
	c.m.launched.Inc()
	c.cfg.Hooks.circuit(CircuitInfo{ID: b.id, State: Opening})
	circ, err := b.run(ctx)
	if err != nil {
		c.m.failed.Inc()
		c.cfg.Hooks.circuit(CircuitInfo{ID: b.id, State: Failed, Hops: len(b.took), Took: b.took, Err: err})
		return nil, err
	}
	return circ, nil
}

// choosePath chooses the relays of a circuit.
func (c *Client) choosePath(d *netdir.Directory, s *path.Spec, now time.Time) (*path.Path, error) {
	c.need(d, s, now)
	p, err := c.live.Load().Path.Choose(d, c.guards, newRand(), s, now)
	if fault.Is(err, fault.Config) { // trying again does not help
		c.problem(err)
	}
	return p, err
}

// need adds what the configuration demands of every hop or of the exit.
func (c *Client) need(d *netdir.Directory, s *path.Spec, now time.Time) {
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
	return circuit.HopOptions{Congestion: cc, CGO: cc && c.cfg.CGO != Off, Flow: c.flow.Load(), Path: flow.PathExit}
}

// building is one circuit under construction.
type building struct {
	*Client
	id      uint64
	path    *path.Path
	slow    func()
	start   time.Time
	took    []time.Duration
	protect []circuit.Protection
	usage   time.Duration // the usage timeout
	timer   *time.Timer   // runs late
	ch      *channel.Channel
	// asked is when the link was open: the time until then says nothing about circuits. It
	// is written under mu, by the goroutine that builds.
	asked time.Time

	mu       sync.Mutex // guards the fields below
	hops     int        // built
	timedOut bool       // the usage timeout has passed
}

func (b *building) run(ctx context.Context) (*Circ, error) {
	targets := b.path.Targets()
	var usage, closing time.Duration
	b.learned(func(e *cbt.Estimator) { usage, closing = e.Timeouts(len(targets)) })
	b.usage = max(usage, minUsage)
	b.timer = time.AfterFunc(b.usage, panics.Contain(b.log, nil, b.late))
	defer b.timer.Stop()
	if b.slow != nil && usage > unlearnedSlow {
		hedge := time.AfterFunc(unlearnedSlow, panics.Contain(b.log, nil, b.hedge))
		defer hedge.Stop()
	}

	circ, err := b.hopByHop(ctx, max(closing, minUsage))
	now := time.Now()
	u := b.path.Guard
	if err != nil {
		b.account(ctx, err, now)
		return nil, err
	}
	if u == nil {
		return circ, nil
	}
	if u.Succeeded(now) == guard.Wait {
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

// minUsage keeps a client on a very fast network from launching a second
// circuit beside each that is a few milliseconds late; C tor looks once a second.
const minUsage = time.Second

// unlearnedSlow is the time after which a circuit gets another one beside it while
// no timeout has been learned. The timeout is a minute then, and one silent relay
// must not delay a client's start for that long.
const unlearnedSlow = 5 * time.Second

var errBuildTimeout = errors.New("the build timeout passed")

// hopByHop opens the channel and builds all hops. Each of the two may take as long as limit:
// what a slow link takes is no time of the circuit.
func (b *building) hopByHop(ctx context.Context, limit time.Duration) (*Circ, error) {
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
			if n == 2 && b.path.Guard != nil {
				b.path.Guard.Extended()
			}
			b.built(n)
		},
	})
	if err != nil {
		var at *circuit.BuildError
		if errors.As(err, &at) && at.Hop > 1 {
			err = &pool.HopError{Relay: targets[at.Hop-1].RSA, Err: err}
		}
		return nil, err
	}
	circ := &Circ{Circuit: cc, id: b.id, client: b.Client, path: b.path, took: b.took}
	b.remember(circ)
	cc.OnClose(circ.ended)
	b.m.built(b.took, circ.Protection())
	b.cfg.Hooks.circuit(CircuitInfo{ID: b.id, State: Open, Hops: len(targets), Took: b.took, Protection: circ.Protection()})
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
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ch, b.asked = ch, time.Now()
	if b.timer.Stop() {
		b.timer.Reset(b.usage)
	}
	return ch, nil
}

// built notes that a hop is built.
func (b *building) built(n int) {
	now := time.Now()
	b.took = append(b.took, now.Sub(b.start))
	b.mu.Lock()
	b.hops = n
	late := b.timedOut
	b.mu.Unlock()
	b.learned(func(e *cbt.Estimator) { e.HopBuilt(n, len(b.path.Hops), b.asked, now, late) })
}

// late runs when the usage timeout has passed. The circuit goes on, to learn how
// long it takes, and another one may be launched beside it.
func (b *building) late() {
	b.overdue()
	if b.slow != nil {
		b.slow()
	}
}

// overdue counts the circuit, once, as one that has passed its usage timeout.
func (b *building) overdue() {
	b.mu.Lock()
	was, hops, asked := b.timedOut, b.hops, b.asked
	b.timedOut = true
	b.mu.Unlock()
	if was {
		return
	}
	b.learned(func(e *cbt.Estimator) {
		if e.Live() && e.Timeout(hops, asked) {
			b.log.Info("most circuits time out: the build timeout is learned anew")
		}
	})
}

// hedge asks for another circuit beside this one, which may still be finished.
func (b *building) hedge() {
	b.mu.Lock()
	hops := b.hops
	b.mu.Unlock()
	b.log.Debug("a circuit takes long", "hops", hops, "of", len(b.path.Hops))
	b.slow()
}

// unreachable reports whether the guard could not be connected to. That alone says that it is
// down: who floods a guard, or makes circuits fail, must not drive its clients to other guards.
func unreachable(err error) bool {
	var c *channel.ConnectError
	return errors.As(err, &c)
}

// account tells the guard and the estimator why the circuit failed.
func (b *building) account(ctx context.Context, err error, now time.Time) {
	b.mu.Lock()
	hops := b.hops
	b.mu.Unlock()
	timedOut := errors.Is(err, errBuildTimeout)
	if timedOut {
		b.overdue() // until times were learned the usage timeout is not shorter, and begins later
		b.learned(func(e *cbt.Estimator) { e.Abandoned(b.start) })
	}
	if timedOut && hops == 0 {
		b.stalled(b.ch, b.asked)
	}
	u := b.path.Guard
	switch {
	case u == nil:
	case hops > 0 && ctx.Err() == nil:
		if timedOut {
			u.TimedOut()
		}
		u.Failed(now, guard.Beyond)
	case unreachable(err) && ctx.Err() == nil && !b.proxyFailed(ctx, err):
		u.Failed(now, guard.Unreachable)
	default: // this client gave up, or what happened says nothing about the guard
		u.Cancelled(now)
	}
}

// stalled notes that the first hop, asked over a link at a time, did not answer. A link is in doubt
// when that goes on for long. One circuit that is given up earlier says nothing: others, and
// directory requests, go on over the link, and another one to the same guard would tell who watches
// that they belong together. But while there is no usable directory, requests for one are all
// that is asked, and each is given up early.
func (c *Client) stalled(ch *channel.Channel, asked time.Time) {
	if ch != nil {
		c.learned(func(e *cbt.Estimator) { ch.Unanswered(asked, e.Stalled()) })
	}
}
