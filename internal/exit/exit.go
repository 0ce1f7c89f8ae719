package exit

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/pace"
	"github.com/chivenet/chive/internal/stream"
)

// Exit serves the streams that end at a relay. It implements
// circuit.StreamHandler.
type Exit struct {
	rules atomic.Pointer[rules] // nil: only directory streams are served
	dir   *dirserver.Server     // nil: none
	opts  Options
	flush time.Duration // flushTime, except in tests

	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	conns    atomic.Int64
	draining atomic.Bool
	resting  atomic.Bool
	limit    atomic.Pointer[StreamLimit]
	lookups  lookupTerms

	mu    sync.Mutex // guards what follows
	circs map[*circuit.Hop]*circuitUse
	asked int // lookups of all circuits in progress

	closed bool
	joined map[*joinedStream]struct{}
	terms  stream.Terms // of all of them
}

// circuitUse is an exit's state for one circuit.
type circuitUse struct {
	open   int
	asking int // of open: those that wait for a name server
	opens  pace.Pace
}

// rules are the settings that may be replaced while the exit runs.
type rules struct {
	*Config
	names *resolver
}

// StreamLimit bounds how often a circuit may open streams: the DoSStream
// parameters of the consensus.
type StreamLimit struct {
	Pace    pace.Limit
	Destroy bool // close a circuit above the limit; false: refuse the stream
}

// New returns an exit. With a nil cfg it refuses all streams except directory
// streams, which dir serves; with a nil dir it refuses those.
func New(cfg *Config, dir *dirserver.Server, opts Options) (*Exit, error) {
	if opts.Stats == nil {
		opts.Stats = new(Stats)
	}
	e := &Exit{dir: dir, opts: opts, flush: flushTime, circs: map[*circuit.Hop]*circuitUse{}, joined: map[*joinedStream]struct{}{}}
	e.terms = stream.Terms{Reason: endReason, Flush: func() time.Duration { return e.flush }, Up: &opts.Stats.BytesIn, Down: &opts.Stats.BytesOut, Log: opts.Log}
	if err := e.SetConfig(cfg); err != nil {
		return nil, err
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e, nil
}

// SetConfig replaces the configuration for new streams; with nil they are
// refused.
func (e *Exit) SetConfig(cfg *Config) error {
	apply, err := e.Prepare(cfg)
	if err == nil {
		apply()
	}
	return err
}

// Prepare checks what SetConfig checks. apply takes the configuration over, and cannot fail.
func (e *Exit) Prepare(cfg *Config) (apply func(), err error) {
	if cfg == nil {
		return func() { e.rules.Store(nil) }, nil
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	c := cfg.withDefaults()
	if e.opts.Sockets > 0 {
		c.MaxConns = min(c.MaxConns, e.opts.Sockets)
	}
	names, err := newResolver(c.Nameservers, &e.opts)
	if err != nil {
		return nil, err
	}
	names.terms = &e.lookups
	return func() {
		if old := e.rules.Load(); old != nil && slices.Equal(old.names.servers, names.servers) {
			names = old.names // with its cache
		}
		e.rules.Store(&rules{Config: &c, names: names})
	}, nil
}

// Close ends all streams and waits for them.
func (e *Exit) Close() {
	e.stop()
	for _, t := range e.close() {
		t.cut()
	}
	e.wg.Wait()
}

func (e *Exit) close() []*joinedStream {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	return slices.Collect(maps.Keys(e.joined))
}

// Drain refuses new streams from now on, so that clients try other exits; open
// streams continue.
func (e *Exit) Drain() { e.draining.Store(true) }

// Rest refuses new streams, as Drain does, until it is called with false.
func (e *Exit) Rest(on bool) { e.resting.Store(on) }

// takesNoStreams reports whether the exit takes no new streams.
func (e *Exit) takesNoStreams() bool { return e.draining.Load() || e.resting.Load() }

// SetStreamLimit changes the limit; nil removes it.
func (e *Exit) SetStreamLimit(l *StreamLimit) { e.limit.Store(l) }

// HandleStream implements circuit.StreamHandler.
func (e *Exit) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	if m.Cmd == cell.RelayResolve {
		return e.resolve(h, m)
	}
	var b cell.Begin
	if m.Cmd == cell.RelayBegin {
		var err error
		if b, err = cell.ParseBegin(m.Data); err != nil {
			// C tor refuses such a stream and keeps the circuit.
			return e.refuse(h, m.Stream, cell.EndTorProtocol)
		}
	}
	if e.takesNoStreams() {
		return e.refuse(h, m.Stream, cell.EndHibernating)
	}
	over, destroy := e.take(h, m.Cmd)
	if destroy {
		return fault.New(fault.Resource, "the client opens streams faster than the consensus allows")
	}
	if over {
		return e.refuse(h, m.Stream, cell.EndMisc) // see shortage
	}
	if m.Cmd == cell.RelayBeginDir {
		return e.beginDir(h, m.Stream)
	}
	return e.begin(h, m.Stream, b)
}

// refuse ends a stream that was not opened.
func (e *Exit) refuse(h *circuit.Hop, id uint16, reason cell.EndReason) error {
	return e.refuseAddr(h, id, cell.End{Reason: reason})
}

// refuseAddr is refuse with the address that is refused.
func (e *Exit) refuseAddr(h *circuit.Hop, id uint16, end cell.End) error {
	e.opts.Stats.Refused.Add(1)
	return h.RefuseStream(id, end)
}

// take counts a stream that a circuit wants to open, but not a directory stream: the
// parameters are about BEGIN and RESOLVE (param-spec), and a client that has no
// directory yet opens many. The directory has its own bounds.
func (e *Exit) take(h *circuit.Hop, cmd cell.RelayCommand) (over, destroy bool) {
	now := e.opts.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.circs[h]
	l := e.limit.Load()
	if s == nil {
		s = new(circuitUse)
		e.circs[h] = s
		h.Circuit().OnClose(func(error) {
			e.mu.Lock()
			delete(e.circs, h)
			e.mu.Unlock()
		})
	}
	if l == nil || cmd == cell.RelayBeginDir || s.opens.Allow(now, l.Pace) {
		return false, false
	}
	return true, l.Destroy
}

// bounds returns the bounds for all streams, also directory streams.
func (e *Exit) bounds() *Config {
	if c := e.rules.Load(); c != nil {
		return c.Config
	}
	return &defaults // directory streams have no sockets
}

// defaults has the bounds of a relay that is no exit.
var defaults = (&Config{}).withDefaults()

// hold counts one connection, lookup or directory stream of a circuit, unless a
// bound is reached: each costs at least a goroutine, for as long as the other end
// wishes.
func (e *Exit) hold(h *circuit.Hop) bool {
	bounds := e.bounds()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.circs[h]
	if s == nil || s.open >= min(bounds.MaxPerCircuit, share(bounds.MaxConns-int(e.conns.Load()))) {
		return false
	}
	s.open++
	e.conns.Add(1)
	return true
}

// Held returns how many places streams and lookups have now, directory streams among them, and
// how many of them wait for a name server.
func (e *Exit) Held() (places, asking int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int(e.conns.Load()), e.asked
}

// shortage is the reason for a stream for which there is no place. RESOURCELIMIT
// keeps all streams of C tor's client from this exit until there is a new consensus:
// it is for an exit that is full, and not for a circuit that has its share.
func (e *Exit) shortage() cell.EndReason {
	if e.conns.Load() < int64(e.bounds().MaxConns) {
		return cell.EndMisc
	}
	return cell.EndResourceLimit
}

// share returns how much one circuit may hold if this much is free for all. So a
// few circuits cannot take everything: the more circuits want much, the less each
// gets, and something is left for late ones.
func share(free int) int {
	if free <= 0 {
		return 0
	}
	return 1 + free/4
}

// lookup asks a name server so many questions for a circuit, unless the circuit has too
// many lookups.
func (e *Exit) lookup(ctx context.Context, h *circuit.Hop, questions int, ask func(context.Context) (Answer, error)) (Answer, error) {
	e.mu.Lock()
	s := e.circs[h]
	if s == nil || s.asking >= share(maxAsking-e.asked) {
		e.mu.Unlock()
		return Answer{}, fault.New(fault.Resource, "too many lookups are under way")
	}
	s.asking++
	e.asked++
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		s.asking--
		e.asked--
	}()
	acct := h.Circuit().Account()
	acct.Reserve(questions * questionCost)
	defer acct.Release(questions * questionCost)
	return ask(ctx)
}

// questionCost is the memory of a question to a name server while it has no answer, in
// bytes: goroutines, a socket, a buffer. Some servers never answer, and a question takes
// long then.
const questionCost = 20 << 10

func (e *Exit) release(h *circuit.Hop) {
	e.conns.Add(-1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.circs[h]; s != nil {
		s.open--
	}
}
