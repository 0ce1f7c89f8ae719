package exit

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/stream"
)

// Exit takes the streams that end at a relay. It implements
// circuit.StreamHandler.
type Exit struct {
	rules atomic.Pointer[rules] // nil: only directory streams are taken
	dir   func(net.Conn)
	opts  Options

	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	conns    atomic.Int64
	draining atomic.Bool
	limit    atomic.Pointer[StreamLimit]

	mu    sync.Mutex // guards what follows
	circs map[*circuit.Hop]*circState
}

// circState is what an exit keeps of one circuit.
type circState struct {
	open   int
	tokens float64 // for opening streams
	filled time.Time
}

// rules are what may be replaced while the exit runs.
type rules struct {
	*Config
	names *resolver
}

// StreamLimit bounds how often a circuit may open streams: the DoSStream
// parameters of the consensus.
type StreamLimit struct {
	Rate, Burst float64 // streams a second, and at once
	Destroy     bool    // a circuit over the limit is closed; else the stream is refused
}

// New returns an exit. A nil cfg refuses all streams but directory streams,
// which dir serves; a nil dir refuses those.
func New(cfg *Config, dir func(net.Conn), opts Options) (*Exit, error) {
	if opts.Stats == nil {
		opts.Stats = new(Stats)
	}
	e := &Exit{dir: dir, opts: opts, circs: map[*circuit.Hop]*circState{}}
	if err := e.SetConfig(cfg); err != nil {
		return nil, err
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e, nil
}

// SetConfig replaces what the exit may do, for streams that come from now on;
// nil refuses them.
func (e *Exit) SetConfig(cfg *Config) error {
	if cfg == nil {
		e.rules.Store(nil)
		return nil
	}
	if err := cfg.Check(); err != nil {
		return err
	}
	c := cfg.withDefaults()
	names, err := newResolver(c.Nameservers, e.opts.Now, e.opts.Stats)
	if err != nil {
		return err
	}
	if old := e.rules.Load(); old != nil && slices.Equal(old.names.servers, names.servers) {
		names = old.names // with what it remembers
	}
	e.rules.Store(&rules{Config: &c, names: names})
	return nil
}

// Close ends all streams and waits for them.
func (e *Exit) Close() {
	e.stop()
	e.wg.Wait()
}

// Drain refuses new streams from now on, so that clients ask elsewhere; those
// that are open go on.
func (e *Exit) Drain() { e.draining.Store(true) }

// SetStreamLimit changes the limit; nil lifts it.
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
	if e.draining.Load() {
		return e.refuse(h, m.Stream, cell.EndHibernating)
	}
	over, destroy := e.take(h)
	if destroy {
		return fault.New(fault.Resource, "the client opens streams faster than the consensus allows")
	}
	if over {
		return e.refuse(h, m.Stream, cell.EndResourceLimit)
	}
	if m.Cmd == cell.RelayBeginDir {
		return e.beginDir(h, m.Stream)
	}
	return e.begin(h, m.Stream, b)
}

// refuse ends a stream that never was.
func (e *Exit) refuse(h *circuit.Hop, id uint16, reason cell.EndReason) error {
	e.opts.Stats.Refused.Add(1)
	end := cell.End{Reason: reason}
	return ignoreClosed(h.Send(cell.RelayEnd, id, end.Append(nil)))
}

func ignoreClosed(err error) error {
	if fault.Is(err, fault.Closed) {
		return nil
	}
	return err
}

// take accounts for a stream that a circuit wants to open.
func (e *Exit) take(h *circuit.Hop) (over, destroy bool) {
	now := e.opts.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.circs[h]
	l := e.limit.Load()
	if s == nil {
		s = &circState{filled: now}
		if l != nil {
			s.tokens = l.Burst
		}
		e.circs[h] = s
		// On another goroutine: a circuit that has closed already calls at once.
		go h.Circuit().OnClose(func(error) {
			e.mu.Lock()
			delete(e.circs, h)
			e.mu.Unlock()
		})
	}
	if l == nil {
		return false, false
	}
	s.tokens = min(l.Burst, s.tokens+now.Sub(s.filled).Seconds()*l.Rate)
	s.filled = now
	if s.tokens < 1 {
		return true, l.Destroy
	}
	s.tokens--
	return false, false
}

// bounds are what holds for all streams, those of the directory too.
func (e *Exit) bounds() *Config {
	if c := e.rules.Load(); c != nil {
		return c.Config
	}
	return &defaults
}

// defaults bounds who lets no stream out.
var defaults = (&Config{}).withDefaults()

// hold counts one connection, lookup or directory stream of a circuit, if there
// is room: each costs a goroutine at least, for as long as the other end likes.
func (e *Exit) hold(h *circuit.Hop) bool {
	bounds := e.bounds()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.circs[h]
	if s == nil || s.open >= bounds.MaxPerCircuit || e.conns.Load() >= int64(bounds.MaxConns) {
		return false
	}
	s.open++
	e.conns.Add(1)
	return true
}

func (e *Exit) release(h *circuit.Hop) {
	e.conns.Add(-1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.circs[h]; s != nil {
		s.open--
	}
}

func (e *Exit) beginDir(h *circuit.Hop, id uint16) error {
	if e.dir == nil {
		return e.refuse(h, id, cell.EndNotDirectory)
	}
	if !e.hold(h) {
		return e.refuse(h, id, cell.EndResourceLimit)
	}
	s, err := stream.Accept(h, id, "directory")
	if err == nil {
		err = ignoreClosed(s.Connected(netip.Addr{}, 0))
	}
	if err != nil {
		e.release(h)
		return err
	}
	e.wg.Go(func() {
		defer e.release(h)
		stop := context.AfterFunc(e.ctx, func() { s.Close() })
		defer stop()
		e.dir(s)
		s.Close()
	})
	return nil
}

// begin judges what can be judged at once, and connects on a goroutine.
func (e *Exit) begin(h *circuit.Hop, id uint16, b cell.Begin) error {
	c := e.rules.Load()
	if c == nil {
		return e.refuse(h, id, cell.EndExitPolicy)
	}
	four, six := b.Flags&cell.BeginIPv4NotOK == 0, b.Flags&cell.BeginIPv6OK != 0 && c.IPv6
	if addr, err := netip.ParseAddr(b.Host); err == nil {
		addr = addr.Unmap()
		if addr.Is6() && !c.IPv6 || !e.allowed(c, addr, b.Port) {
			return e.refuse(h, id, cell.EndExitPolicy)
		}
	} else if !four && !six {
		return e.refuse(h, id, cell.EndExitPolicy)
	}
	if !e.hold(h) {
		return e.refuse(h, id, cell.EndResourceLimit)
	}
	s, err := stream.Accept(h, id, "exit stream")
	if err != nil {
		e.release(h)
		return err
	}
	e.wg.Go(func() {
		defer e.release(h)
		e.serve(c, s, b, four, six)
	})
	return nil
}

// allowed judges one address: the policy, and never the relay itself.
func (e *Exit) allowed(c *rules, addr netip.Addr, port uint16) bool {
	return c.Policy.Allows(addr, port) && !(slices.Contains(e.opts.Own, addr) && !addr.IsLoopback())
}

// serve connects a stream and copies until both directions have ended.
func (e *Exit) serve(c *rules, s *stream.Stream, b cell.Begin, four, six bool) {
	ctx, cancel := context.WithTimeout(e.ctx, c.ConnectTimeout)
	gone := watch(ctx, s, cancel)
	conn, ttl, err := e.connect(ctx, c, b, four, six)
	cancel()
	<-gone
	if err != nil {
		e.opts.Stats.Failed.Add(1)
		r := refusalOf(err)
		_ = s.Reject(r.reason, r.addr, r.ttl) // an error means that the circuit is gone
		return
	}
	addr := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	e.opts.Stats.Opened.Add(1)
	e.opts.Stats.Streams.Add(1)
	defer e.opts.Stats.Streams.Add(-1)
	if err := s.Connected(addr, ttl); err != nil {
		conn.Close()
		return
	}
	e.copy(s, conn)
}

// watch cancels when the circuit closes before the connection is open.
func watch(ctx context.Context, s *stream.Stream, cancel context.CancelFunc) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.Hop().Circuit().Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	return done
}

// refusal is an error with what the client is told of it.
type refusal struct {
	error
	reason cell.EndReason
	addr   netip.Addr
	ttl    uint32
}

func (r *refusal) Unwrap() error { return r.error }

func refusalOf(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	return &refusal{error: err, reason: reasonOf(err)}
}
