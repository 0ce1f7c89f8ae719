// Package pool gives circuits to streams. It reuses open circuits if isolation and
// exit policy allow it, builds new ones if they do not, and keeps some ready for
// ports that were used lately (path-spec 2.1).
//
// A circuit is clean until a stream is attached to it. Then it is dirty, and
// belongs to that stream's isolation key. After a while it takes no new streams,
// and it is closed when its last stream ends.
package pool

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/path"
)

// PooledCircuit is what the pool needs of an open circuit.
type PooledCircuit interface {
	// Exit is the last hop's identity.
	Exit() ident.RSAID
	// Allows reports whether the last hop's policy lets dest out.
	Allows(dest path.Dest) bool
	// Leads reports whether the circuit has so many hops, and can be extended to a relay:
	// the zero one stands for any.
	Leads(hops int, next ident.RSAID) bool
	// Stable reports whether every hop is good for long-lived streams.
	Stable() bool
	// Steered reports whether it gets only the streams that a controller attaches. It is asked when the pool takes
	// the circuit; after that, Steer says so.
	Steered() bool
	// Legs is how many circuits it stands for: those of a conflux set, of which some may end before it, or one.
	Legs() int
	// Done is closed when the circuit has ended.
	Done() <-chan struct{}
	// Close ends it: it closes Done, perhaps after a last question to the exit, until which nobody may get the circuit; and waits for nothing. It may be called
	// more than once.
	Close()
}

// Spec is an order to a Builder.
type Spec struct {
	path.Spec
	// Country is where the exit must be, such as "de"; empty: anywhere.
	Country string
	// Set asks for a conflux set, if the configuration and the network allow it, and else for one circuit.
	Set bool
	// Idle is how old a circuit becomes that nobody uses, if Config.Common is set.
	Idle time.Duration
	// Slow must be called when the circuit will not be ready soon, because its
	// usage timeout has passed or it waits for a better guard. The pool may then
	// launch another one beside it. It may be called more than once.
	Slow func()
	// Late, if not nil, must be called before Build returns ErrLate.
	Late func()
}

// Builder builds circuits. Build is called from many goroutines.
type Builder interface {
	Build(ctx context.Context, spec Spec) (PooledCircuit, error)
}

// HopError says at which relay a circuit failed, so that the next one goes around
// it. A Builder must not name the first hop: guards have their own rules.
type HopError struct {
	Relay ident.RSAID
	Err   error
}

func (e *HopError) Error() string { return e.Err.Error() }
func (e *HopError) Unwrap() error { return e.Err }

// Live is the part of a Config that may change while the pool runs: see Set. Fields have the names
// that they have in the configuration of package chive (see role.Take).
type Live struct {
	MaxCircuitDirtiness      time.Duration // how long a dirty circuit takes new streams; 10 minutes
	MaxClientCircuitsPending int           // circuits being built; 32
}

func (l Live) orDefaults() Live {
	l.MaxCircuitDirtiness = Dirtiness(l.MaxCircuitDirtiness)
	l.MaxClientCircuitsPending = cmp.Or(l.MaxClientCircuitsPending, defaultPending)
	return l
}

// Config says how a Pool works. Zero fields get defaults.
type Config struct {
	Live
	CleanTimeout time.Duration // how long a clean circuit is kept; 30 minutes
	MaxStreams   int           // streams on one circuit; 1000
	MaxClean     int           // clean circuits and preemptive launches, but for those of Learn; 12
	PerPort      int           // clean circuits for each predicted port, twice that for onion services; 2. Negative: none
	Predict      time.Duration // how long a port is predicted after its use; an hour
	InitialPorts []uint16      // predicted from the start; 80 and 443. Not nil but empty: none
	MaxAttempts  int           // launches that may fail for one request; 8
	// Learn, when set, is asked now and then whether a circuit should be built
	// only to learn build times; open is how many clean ones there are.
	Learn func(open int) bool
	// Common has circuits built ahead, kept and closed when C tor does that: see common.go.
	Common     *Common
	LearnEvery time.Duration // 10 seconds
	// Resting, when set, reports whether nothing shall be built ahead; Retry says that this may have changed. It is asked under
	// the pool's lock.
	Resting func() bool
	Rand    *rand.Rand // jitter of times; nil: none
	Log     *slog.Logger
}

func (c *Config) defaults() {
	c.Live = c.Live.orDefaults()
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&c.CleanTimeout, 30*time.Minute)
	def(&c.Predict, time.Hour)
	def(&c.LearnEvery, 10*time.Second)
	num(&c.MaxStreams, 1000)
	num(&c.MaxClean, 12)
	num(&c.PerPort, 2)
	num(&c.MaxAttempts, 8)
	switch {
	case c.InitialPorts != nil:
	case c.Common != nil:
		c.InitialPorts = []uint16{443}
	default:
		c.InitialPorts = []uint16{80, 443}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Pool keeps the circuits of one client.
type Pool struct {
	cfg     Config
	builder Builder
	ctx     context.Context // of all launches; ends with Close
	cancel  context.CancelCauseFunc
	kicked  chan struct{} // wakes the keeper
	wg      sync.WaitGroup

	mu        sync.Mutex // guards all below
	entries   []*entry
	launches  []*launch
	waiters   []*waiter            // in the order in which they came
	predicted map[target]time.Time // when each was last asked for
	spent     bool                 // a clean circuit was taken, or a target is new: the keeper may have to build
	refused   map[refusal]time.Time
	failures  int       // launches in a row, each begun after the one before had failed
	failedAt  time.Time // the last of them
	notBefore time.Time // of the next launch for a request, after failures
	probeAt   time.Time // of the next launch ahead, after failures
	restUntil time.Time // until then, little is built ahead for onion services
	epoch     int       // grows with NewIdentity, if Common is set
	drawn     bool      // Config.Predict was drawn
	sweeps    int       // seconds until circuits are closed that are too old, if Common is set
	closed    bool
	total     Totals
}

// entry is an open circuit.
type entry struct {
	c        PooledCircuit
	key      isolation.Key // when dirty
	dirty    time.Time     // since; zero when clean
	built    time.Time
	expires  time.Time // when it is closed, if it is still clean
	leases   int
	epoch    int    // of the stream that made it dirty
	set      bool   // a conflux set was asked for
	internal bool   // built for onion services
	country  string // that the exit was chosen for; empty: for none
	private  bool   // given to one owner for ever
	retired  bool   // takes no new streams
	steered  bool   // it gets only the streams that a controller attaches
	idle     bool   // nobody gets it: see Pool.Rest
	learns   bool   // it was built to learn how long that takes
}

func (e *entry) clean() bool { return e.dirty.IsZero() }

func (e *entry) dead() bool {
	select {
	case <-e.c.Done():
		return true
	default:
		return false
	}
}

// New makes a pool, which begins at once to build circuits for the ports that
// it predicts.
func New(cfg Config, b Builder) *Pool {
	cfg.defaults()
	p := &Pool{
		cfg: cfg, builder: b, kicked: make(chan struct{}, 1),
		predicted: map[target]time.Time{}, refused: map[refusal]time.Time{},
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	now := time.Now()
	if cfg.Common != nil {
		p.predicted[target{internal: true, hops: path.DefaultHops}] = now
	}
	for _, port := range cfg.InitialPorts {
		p.predicted[target{port: port}] = now
	}
	p.wg.Go(panics.Keep(p.cfg.Log, p.rest, p.keep))
	return p
}

var errClosed = fault.Also(fault.New(fault.Closed, "circuit pool: closed"), net.ErrClosed)

// Close ends all launches and circuits, fails the requests that wait, and
// returns when no goroutine of the pool is left.
func (p *Pool) Close() {
	p.close()
	p.wg.Wait()
}

func (p *Pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	p.cancel(errClosed)
	for _, w := range p.waiters {
		w.deliver(nil, errClosed)
	}
	p.waiters = nil
	for _, e := range p.entries {
		e.c.Close()
	}
}

// NewIdentity keeps new streams from every circuit that exists now, clean ones
// too. Open streams go on. Requests that wait get new circuits. If Config.Common is
// set, clean circuits, which nobody has used, stay for those who ask from now on, as in C tor.
func (p *Pool) NewIdentity() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cfg.Common != nil {
		p.newEpochLocked()
		return
	}
	p.retireAllLocked(fault.New(fault.Closed, "circuit: a new identity was asked for"))
}

// RetireAll keeps new streams from every circuit that exists now or is being built, clean ones too, because circuits
// are chosen by other rules from now on. Open streams go on. Requests that wait get new circuits.
func (p *Pool) RetireAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retireAllLocked(fault.New(fault.Closed, "circuit: the rules for circuits have changed"))
}

func (p *Pool) retireAllLocked(why error) {
	for _, e := range p.entries {
		e.retired = true
	}
	for _, l := range p.launches {
		l.cancel(why)
		l.stale = true
	}
	for _, w := range p.waiters {
		w.launch = nil
	}
	p.sweepLocked(time.Now())
	p.scheduleLocked()
	p.kick()
}

// Set takes over other settings. Zero fields get defaults.
func (p *Pool) Set(l Live) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cfg.Live = l.orDefaults()
	p.kick() // what waits may fit another bound
}

// Dirtiness returns how long a dirty circuit takes new streams, by the option: zero
// is the default.
func Dirtiness(d time.Duration) time.Duration { return cmp.Or(d, defaultDirtiness) }

// Retry forgets past failures. Callers use it when there is a new directory, or
// when the network works again.
func (p *Pool) Retry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures, p.notBefore, p.probeAt, p.failedAt = 0, time.Time{}, time.Time{}, time.Time{}
	p.scheduleLocked()
	p.kick()
}

// kick wakes the keeper.
func (p *Pool) kick() {
	select {
	case p.kicked <- struct{}{}:
	default:
	}
}

// defaultDirtiness is how long a dirty circuit takes new streams, unless told
// otherwise.
const defaultDirtiness = 10 * time.Minute

// defaultPending is how many circuits are being built at a time, unless told otherwise, as in C tor.
const defaultPending = 32

// Totals count since the pool was made.
type Totals struct {
	Launched, Built, Failed uint64 // circuits
	Late                    uint64 // of the launched, ones that took so long that nobody gets them
	Hedged                  uint64 // of the launched, ones beside a slow one
	Preemptive              uint64 // of the launched, ones that no request waited for
	Leased, Reused          uint64 // streams, and those of them on a dirty circuit
}

// Status is a snapshot of a Pool.
type Status struct {
	Clean, Dirty, Retired int // open circuits
	Launching, Waiting    int // launches and requests
	Streams               int
	Failures              int // launches in a row
	Totals
}

// Status returns a snapshot.
func (p *Pool) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{Launching: len(p.launches), Waiting: len(p.waiters), Failures: p.failures, Totals: p.total}
	for _, e := range p.entries {
		s.Streams += e.leases
		switch {
		case e.retired:
			s.Retired++
		case e.clean():
			s.Clean++
		default:
			s.Dirty++
		}
	}
	return s
}
