package fte

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
)

// Defaults of a ListenConfig.
const (
	DefaultMaxPending       = 4096
	DefaultHandshakeTimeout = 30 * time.Second
	// DefaultMaxMemory is in bytes: 16384 idle connections use half of it.
	DefaultMaxMemory = 512 << 20
	defaultHold      = 5 * time.Second
)

// ListenConfig says how a Listener treats connections, mainly before they are
// authenticated. When a bound is reached, the address (IPv6: the /64) that has
// the most connections, or holds the most memory, loses one.
type ListenConfig struct {
	// Transport is the server side of a protocol.
	Transport Transport
	// MaxPending bounds the handshakes in progress, including failed ones that
	// are being held; above it, the oldest of the address with the most is
	// closed. It also bounds the authenticated connections that wait for Accept;
	// above it, the newest is closed. 0 is DefaultMaxPending.
	MaxPending int
	// MaxConns bounds the open authenticated connections; above it, the newest of
	// the address with the most is closed. 0 is DefaultMaxConns.
	MaxConns int
	// MaxMemory bounds what all connections together hold, in bytes; above it,
	// those that hold the most are closed. The bound applies until Close. 0 is
	// DefaultMaxMemory.
	MaxMemory int64
	// HandshakeTimeout is how long a connection may stay unauthenticated; each
	// connection gets a random limit between this and twice this when it arrives,
	// and a failed handshake is held in silence until then, so that neither the
	// length nor the time of a probe changes what the prober sees. 0 is
	// DefaultHandshakeTimeout.
	HandshakeTimeout time.Duration
	// Decoy, if set, dials a server that answers failed handshakes: it gets the
	// bytes of the handshake, and the connection is relayed to it. A handshake that
	// fails after the server's own hello is held in silence.
	Decoy func(context.Context) (net.Conn, error)
	// Hold is how long the decoy waits for an unfinished hello; 0 is five
	// seconds.
	Hold time.Duration
	// Stats, if set, receives the counts.
	Stats *Stats
}

// Listener accepts authenticated connections over another listener. Connections
// that Accept returns count towards its bounds until they are closed.
type Listener struct {
	l     net.Listener
	cfg   ListenConfig
	ready chan *Conn
	queue chan struct{} // holds a token for each connection that waits to be accepted
	ctx   context.Context
	stop  context.CancelCauseFunc
	wg    sync.WaitGroup
	mem   *account.Memory

	mu      sync.Mutex // guards what follows
	pending crowd      // of *guest
	open    crowd      // of *guest
}

// guest is a connection that a Listener has accepted, until it is closed.
type guest struct {
	*Conn
	from *account.Account // of its address

	// guarded by the listener's mu
	in, open *place // in the crowds; nil: it was never in one there
	gone     bool
}

// NewListener returns a Listener that runs handshakes on the connections of l.
// Its Close closes l.
func NewListener(l net.Listener, cfg ListenConfig) *Listener {
	if cfg.MaxPending <= 0 {
		cfg.MaxPending = DefaultMaxPending
	}
	if cfg.MaxConns <= 0 {
		cfg.MaxConns = DefaultMaxConns
	}
	if cfg.MaxMemory <= 0 {
		cfg.MaxMemory = DefaultMaxMemory
	}
	if cfg.HandshakeTimeout <= 0 {
		cfg.HandshakeTimeout = DefaultHandshakeTimeout
	}
	if cfg.Hold <= 0 {
		cfg.Hold = defaultHold
	}
	if cfg.Stats == nil {
		cfg.Stats = new(Stats)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	ln := &Listener{
		l: listen.Patient(l, nil, ""), cfg: cfg, ready: make(chan *Conn), queue: make(chan struct{}, cfg.MaxPending), ctx: ctx, stop: stop,
		mem: account.New(cfg.MaxMemory), pending: newCrowd(), open: newCrowd(),
	}
	if cfg.Transport == nil {
		ln.stop(errNoTransport)
		return ln
	}
	ln.wg.Go(panics.Contain(nil, ln.stop, ln.run))
	ln.wg.Go(panics.Contain(nil, ln.stop, ln.reclaim))
	return ln
}

var errNoTransport = fault.New(fault.Config, "the server has no Transport")

// Accept returns the next authenticated connection, a *Conn.
func (ln *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-ln.ready:
		return c, nil
	case <-ln.ctx.Done():
		return nil, context.Cause(ln.ctx)
	}
}

// Addr returns the address of the listener below.
func (ln *Listener) Addr() net.Addr { return ln.l.Addr() }

// Close stops accepting and closes every connection that Accept has not returned.
func (ln *Listener) Close() error {
	ln.stop(net.ErrClosed)
	err := ln.l.Close()
	for _, g := range ln.takePending() {
		g.Close()
	}
	ln.wg.Wait()
	return err
}

func (ln *Listener) takePending() (all []*guest) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	for ln.pending.n > 0 {
		all = append(all, ln.pending.oldest().(*guest))
	}
	return all
}

// reclaim closes the connections that hold the most while all together hold too
// much.
func (ln *Listener) reclaim() {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	ln.mem.Run(ln.ctx, second.C, func(n int, _ int64) { ln.cfg.Stats.Evicted.Add(uint64(n)) })
}

func (ln *Listener) run() {
	for {
		raw, err := ln.l.Accept()
		if err != nil {
			ln.stop(fault.New(fault.Network, "accepting: %w", err))
			return
		}
		ln.cfg.Stats.Accepted.Add(1)
		g := ln.enter(raw)
		if g == nil {
			raw.Close()
			return
		}
		ln.wg.Go(panics.Contain(nil, nil, func() { ln.serve(g) }))
	}
}

// enter registers a connection and closes another when there are too many. It
// returns nil after Close.
func (ln *Listener) enter(raw net.Conn) *guest {
	g := &guest{Conn: ln.cfg.Transport.Wrap(raw), from: ln.mem.Address(netaddr.Of(raw.RemoteAddr()))}
	old, ok := ln.register(g)
	if !ok {
		g.from.Close()
		return nil
	}
	if old != nil {
		old.Close()
	}
	return g
}

// register is the part of enter under the lock; old is the connection to close.
func (ln *Listener) register(g *guest) (old *guest, ok bool) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.ctx.Err() != nil {
		return nil, false
	}
	g.count(g.from.Open(account.Connection, func(error) {
		ln.registered()
		g.Close()
	}), func() { ln.left(g) })
	if ln.pending.n >= ln.cfg.MaxPending {
		old = ln.pending.oldest().(*guest)
		ln.cfg.Stats.Evicted.Add(1) // before Close, because the peer may read the count as soon as it is closed
	}
	ln.cfg.Stats.Pending.Add(1)
	g.in = ln.pending.enter(g.from, g)
	return old, true
}

// registered waits until register is done, so that the guest is complete.
func (ln *Listener) registered() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
}

// left removes a closed connection. Further calls do nothing.
func (ln *Listener) left(g *guest) {
	if ln.forget(g) {
		g.mem.Close()
		g.from.Close()
	}
}

// forget is the part of left under the lock; it reports whether it is the first
// call.
func (ln *Listener) forget(g *guest) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	gone := g.gone
	g.gone = true
	if g.open != nil {
		ln.open.leave(g.open)
	}
	return !gone
}

// handled removes a connection from those whose handshakes are in progress.
func (ln *Listener) handled(g *guest) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.pending.leave(g.in)
	ln.cfg.Stats.Pending.Add(-1)
}

// admit adds an authenticated connection to the open ones. If there are too many,
// it closes the newest of the address that has the most, which may be this one.
func (ln *Listener) admit(g *guest) bool {
	old, ok := ln.place(g)
	if old != nil {
		old.Close()
	}
	return ok
}

// place is the part of admit under the lock; old is the connection to close.
func (ln *Listener) place(g *guest) (old *guest, ok bool) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	full := ln.open.n >= ln.cfg.MaxConns
	if g.gone || full && ln.open.size(g.from)+1 >= ln.open.most {
		return nil, false
	}
	if full {
		old = ln.open.newest().(*guest)
		ln.cfg.Stats.Evicted.Add(1)
	}
	g.open = ln.open.enter(g.from, g)
	return old, true
}

// patience returns a random time between t and 2t.
func patience(t time.Duration) time.Duration { return t + randomUpTo(t) }

// randomUpTo returns a random time below t, which must be positive.
func randomUpTo(t time.Duration) time.Duration {
	var b [8]byte
	rand.Read(b[:])
	return time.Duration(binary.BigEndian.Uint64(b[:]) % uint64(t))
}

// serve runs the handshake of one connection. A connection that fails it is held
// in silence or given to the decoy.
func (ln *Listener) serve(g *guest) {
	pending := true
	handled := func() { pending = false; ln.handled(g) }
	defer panics.Recover(nil, func(error) {
		g.Close()
		if pending {
			handled()
		}
	})
	end := time.Now().Add(patience(ln.cfg.HandshakeTimeout))
	limit := end
	if ln.cfg.Decoy != nil {
		limit, g.patience = time.Now().Add(ln.cfg.Hold), end
	}
	g.raw.SetDeadline(limit)
	if err := g.Handshake(); err != nil {
		ln.cfg.Stats.Failed.Add(1)
		if ln.cfg.Decoy != nil && !g.spoke {
			ln.decoy(g.Conn)
		} else {
			ln.hold(g.Conn, end)
		}
		g.Close()
		handled()
		return
	}
	g.raw.SetDeadline(time.Time{})
	handled()
	ln.cfg.Stats.Opened.Add(1)
	if !ln.admit(g) {
		ln.cfg.Stats.Evicted.Add(1)
		g.Close()
		return
	}
	select {
	case ln.queue <- struct{}{}:
	default:
		ln.cfg.Stats.Evicted.Add(1)
		g.Close()
		return
	}
	defer func() { <-ln.queue }()
	select {
	case ln.ready <- g.Conn:
	case <-ln.ctx.Done():
		g.Close()
	}
}

// hold reads and discards bytes until the connection's time is over or the peer
// leaves.
func (ln *Listener) hold(c *Conn, end time.Time) {
	c.in.drop()
	c.raw.SetDeadline(end)
	var f *frame
	get := func() []byte {
		if f == nil {
			f = getFrame(c.mem, smallFrame)
		}
		return f.B
	}
	rest := func() { f.put(); f = nil }
	defer func() { f.put() }()
	for {
		if _, err := c.src.read(get, rest); err != nil {
			return
		}
	}
}

// decoy gives the connection, and what it sent so far, to the decoy.
func (ln *Listener) decoy(c *Conn) {
	ctx, cancel := context.WithTimeout(ln.ctx, ln.cfg.HandshakeTimeout)
	origin, err := ln.cfg.Decoy(ctx)
	cancel()
	if err != nil {
		ln.cfg.Stats.DialFailed.Add(1)
		return
	}
	ln.cfg.Stats.Decoyed.Add(1)
	stop := context.AfterFunc(ln.ctx, panics.Contain(nil, nil, func() { origin.Close() }))
	defer stop()
	c.raw.SetDeadline(time.Time{})
	if said := c.in.bytes(); len(said) > 0 {
		_, err = origin.Write(said)
	}
	c.in.drop()
	if err != nil {
		origin.Close()
		return
	}
	Relay(c.raw, origin)
}
