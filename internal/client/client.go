// Package client is the client role: it wires directory, guards, paths,
// circuits and streams together.
package client

import (
	"context"
	cryptorand "crypto/rand"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/hsclient"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/outbound"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/protover"
	"github.com/chivenet/chive/internal/upstream"
)

// Client is a running client.
type Client struct {
	cfg   Config
	log   *slog.Logger
	m     *clientMetrics
	stats channel.Stats
	env   *circuit.Env

	memory *account.Memory
	chans  *channel.Manager
	dirs   *dirclient.Client
	guards *guard.Manager
	caches *caches
	served served
	bridge *bridges // nil: without bridges
	onion  *hsclient.Client
	// onionTold is who wants to know of descriptors; nil: nobody.
	onionTold atomic.Pointer[netdir.HSTell]

	vanguards *guard.Vanguards

	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	legs   sync.WaitGroup // counts the goroutines that make legs of conflux sets, which begin in the pool

	live     atomic.Pointer[Live]
	flow     atomic.Pointer[flow.Params]
	ofRelays atomic.Pointer[protover.Set] // what the consensus requires of relays; nil until there is one
	sets     atomic.Pointer[setNumbers]   // nil until there is a consensus
	padding  *channel.Padding
	pool     atomic.Pointer[pool.Pool]
	started  time.Time
	// insideDial opens the connections of transports in Config.Inside.
	insideDial upstream.DialFunc
	ids        atomic.Uint64 // of circuits and streams
	streams    atomic.Int64
	padded     atomic.Uint64 // DROP cells sent
	making     atomic.Int64  // circuits being built

	poolReady chan struct{} // closed when pool is set
	firstCirc chan struct{} // closed when the first circuit was built
	firstOnce sync.Once

	used anonymity

	watch      watchers
	lives      lives
	mapping    mapping
	steered    atomic.Int64 // circuits that controllers had built
	unattached atomic.Bool  // streams wait until a controller attaches them

	// Each of these has a lock of its own.
	reach    reach
	circs    openCircuits
	conns    openConns
	times    buildTimes
	services services
	filter   guardFilter
	learned  learned
	seconds  seconds
	sweeps   seconds // those of the pool's sweeps
	underway underway
	boot     boot
	dormancy dormancy
	told     bootTold
}

// New starts a client. It returns at once; Wait waits until traffic can flow.
func New(cfg Config) (*Client, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.PQSet == 0 {
		cfg.PQSet = handshake.PQ768
	}
	insideDial := upstream.DialFunc(cfg.Dial)
	if cfg.Dial == nil {
		outbound.Warn(cfg.Log, cfg.Outbound.OR, cfg.Outbound.PT, cfg.Outbound.Rest)
		cfg.Dial, insideDial = dialTCP(cfg.Outbound.OR), dialTCP(cfg.Outbound.PT)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = new(metrics.Registry)
	}
	c := &Client{
		cfg: cfg, log: cfg.Log, started: time.Now(), insideDial: insideDial,
		poolReady: make(chan struct{}), firstCirc: make(chan struct{}),
	}
	live := cfg.Live
	c.live.Store(&live)
	c.mapping.configure(live.Map)
	c.boot.now = Bootstrap{Stage: "starting"}
	c.dormancy.used = c.started.Add(-max(cfg.Unused, 0))
	if cfg.Rest { // before anything runs that could ask a relay
		c.Rest()
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.env = &circuit.Env{Log: cfg.Log, Now: time.Now, Padding: circuit.NewPaddingLimits(c.stats.CellsOut.Load, &c.padded)}
	c.env.Padding.Set(c.circuitPadding(circuit.DefaultPaddingParams()))
	defaults := flow.DefaultParams()
	c.flow.Store(&defaults)
	c.memory = account.New(cfg.MaxMemory)
	c.m = newMetrics(cfg.Metrics, c)

	sweepState(&cfg)
	var err error
	if c.guards, err = newGuards(&cfg); err != nil {
		return nil, err
	}
	if c.vanguards, err = guard.NewVanguards(cfg.Vanguards, cfg.store("vanguards.json"), cfg.Log, time.Now()); err != nil {
		return nil, err
	}
	if err := c.times.load(cfg.timesStore(), c.cbtParams(noParam), c.log); err != nil {
		return nil, err
	}
	c.padding = channel.NewPadding(channel.DefaultPadding(cfg.Padding))
	ccfg := &channel.Config{Log: cfg.Log, Now: time.Now, Stats: &c.stats, Padding: c.padding, Opened: c.sawLink, Watch: c.watch.link, Memory: c.memory, Patient: true}
	if !cfg.Fast && len(cfg.Bridges) == 0 { // who names a bridge by two addresses wants both
		ccfg.Another = noRoute
	}
	c.chans = channel.NewManager(ccfg, &channel.LinkConfig{Log: cfg.Log, Memory: c.memory, Common: !cfg.Fast}, c.dial)
	c.caches = newCaches(c)
	c.onion = newOnion(c)
	if len(cfg.Bridges) > 0 {
		if c.bridge, err = newBridges(c); err != nil {
			return nil, err
		}
	}
	dir := ""
	if cfg.Dir != "" {
		dir = filepath.Join(cfg.Dir, "directory")
	}
	c.dirs = dirclient.New(dirclient.Config{
		Network: cfg.Network, Dialer: c.caches, Dir: dir, Speaker: netdir.ThisProgram(false), Log: cfg.Log, Progress: c.dirProgress, Hold: c.mayAsk, Common: !cfg.Fast,
		Idle: c.Idle, Late: c.bridge != nil, Lacks: c.guardLacks, Bridged: c.guards.Bridged,
	})
	if c.bridge != nil {
		c.bridge.run()
	}
	for _, loop := range []func(){c.runMemory, c.runDirectory, c.runUpdates, c.runGuards, c.runVanguards, c.runHousekeeping} {
		c.wg.Go(panics.Keep(c.log, c.rest, loop))
	}
	return c, nil
}

// rest waits for a second after a panic; false when the client is closed.
func (c *Client) rest() bool {
	select {
	case <-c.ctx.Done():
		return false
	case <-time.After(time.Second):
		return true
	}
}

// newRand returns a generator for one goroutine, seeded by the system.
func newRand() *rand.Rand {
	var seed [32]byte
	_, _ = cryptorand.Read(seed[:]) // never fails (crypto/rand)
	return rand.New(rand.NewChaCha8(seed))
}

// Wait waits until a circuit was built and traffic can flow.
func (c *Client) Wait(ctx context.Context) error {
	// What is so already counts more than an expired ctx.
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	select {
	case <-c.firstCirc:
		return nil
	default:
	}
	select {
	case <-c.firstCirc:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-ctx.Done():
		b := c.Bootstrap()
		if b.Problem != "" {
			return fault.Ended(ctx, "not ready, at %d%% (%s): %s: %w", b.Percent, b.Stage, b.Problem, context.Cause(ctx))
		}
		return fault.Ended(ctx, "not ready, at %d%% (%s): %w", b.Percent, b.Stage, context.Cause(ctx))
	}
}

// Done is closed when the client was closed, or cannot go on.
func (c *Client) Done() <-chan struct{} { return c.ctx.Done() }

// Err returns why the client cannot go on; nil while it runs, and when it was
// closed.
func (c *Client) Err() error {
	if err := context.Cause(c.ctx); err != errClosed {
		return err
	}
	return nil
}

var errClosed = fault.Also(fault.New(fault.Closed, "the client is closed"), net.ErrClosed)

// Silence has the client send nothing more, not even the ends of circuits and streams. Close must
// follow. An end that is told stream by stream is an appearance of its own: C tor just
// goes.
func (c *Client) Silence() { c.chans.Silence() }

// Close ends everything and waits until no goroutine is left.
func (c *Client) Close() error {
	c.cancel(errClosed)
	c.Silence()
	c.onion.Close()
	c.services.wait()
	c.lives.end()
	c.wg.Wait()
	if p := c.pool.Load(); p != nil {
		p.Close()
	}
	c.legs.Wait()
	c.caches.close()
	c.chans.Close()
	c.env.WaitEnds() // the guards count the ends of circuits
	err := c.guards.Save()
	if verr := c.vanguards.Save(); err == nil {
		err = verr
	}
	if c.bridge != nil {
		if berr := c.bridge.close(); err == nil {
			err = berr
		}
	}
	if terr := c.times.save(c.cfg.timesStore()); err == nil {
		err = terr
	}
	return err
}
