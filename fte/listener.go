package fte

import (
	"container/list"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// Defaults of a ListenConfig.
const (
	DefaultMaxPending       = 4096
	DefaultHandshakeTimeout = 30 * time.Second
	defaultHold             = 5 * time.Second
)

// ListenConfig says how a Listener treats connections until they are
// authenticated.
type ListenConfig struct {
	// Transport is the server side of a protocol.
	Transport Transport
	// MaxPending bounds the handshakes under way, failed ones that are being
	// held included; beyond it the oldest is closed. It also bounds the
	// authenticated connections that wait for Accept; beyond it the newest is
	// closed. 0 is DefaultMaxPending.
	MaxPending int
	// HandshakeTimeout is how long a connection may stay unauthenticated; each
	// is given a random time between this and twice this when it arrives, and a
	// failed handshake is held in silence until then, so that neither the
	// length nor the time of a probe changes what the prober sees.
	// 0 is DefaultHandshakeTimeout.
	HandshakeTimeout time.Duration
	// Decoy, when set, dials what answers instead of silence: the bytes of a
	// failed handshake go there and the connection is relayed.
	Decoy func(context.Context) (net.Conn, error)
	// Hold is how long an unfinished handshake keeps the decoy waiting; 0 is
	// five seconds.
	Hold time.Duration
	// Stats, when set, is counted into.
	Stats *Stats
}

// Listener accepts authenticated connections over another listener.
type Listener struct {
	l     net.Listener
	cfg   ListenConfig
	ready chan *Conn
	queue chan struct{} // holds a token for each connection that waits to be accepted
	ctx   context.Context
	stop  context.CancelCauseFunc
	wg    sync.WaitGroup

	mu      sync.Mutex
	pending *list.List // of net.Conn, oldest first
}

// NewListener runs handshakes on what l accepts, and closes l when it is closed.
func NewListener(l net.Listener, cfg ListenConfig) *Listener {
	if cfg.MaxPending <= 0 {
		cfg.MaxPending = DefaultMaxPending
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
	ln := &Listener{l: l, cfg: cfg, ready: make(chan *Conn), queue: make(chan struct{}, cfg.MaxPending), ctx: ctx, stop: stop, pending: list.New()}
	ln.wg.Add(1)
	go panics.Contain(nil, ln.stop, ln.run)()
	return ln
}

// Accept returns the next authenticated connection, a *Conn.
func (ln *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-ln.ready:
		return c, nil
	case <-ln.ctx.Done():
		return nil, context.Cause(ln.ctx)
	}
}

// Addr returns the address below.
func (ln *Listener) Addr() net.Addr { return ln.l.Addr() }

// Close stops accepting and closes every connection that Accept has not returned.
func (ln *Listener) Close() error {
	ln.stop(net.ErrClosed)
	err := ln.l.Close()
	ln.mu.Lock()
	for e := ln.pending.Front(); e != nil; e = e.Next() {
		e.Value.(net.Conn).Close()
	}
	ln.mu.Unlock()
	ln.wg.Wait()
	return err
}

func (ln *Listener) run() {
	defer ln.wg.Done()
	for {
		raw, err := Accept(ln.ctx, ln.l)
		if err != nil {
			ln.stop(err)
			return
		}
		ln.cfg.Stats.Accepted.Add(1)
		e := ln.enter(raw)
		if e == nil {
			raw.Close()
			return
		}
		ln.wg.Go(panics.Contain(nil, nil, func() { ln.serve(raw, e) }))
	}
}

// enter registers a connection and closes the oldest when there are too many.
// It returns nil after Close.
func (ln *Listener) enter(raw net.Conn) *list.Element {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.ctx.Err() != nil {
		return nil
	}
	if ln.pending.Len() >= ln.cfg.MaxPending {
		old := ln.pending.Front()
		ln.pending.Remove(old)
		ln.cfg.Stats.Evicted.Add(1) // first: its peer may look as soon as it is closed
		old.Value.(net.Conn).Close()
	}
	ln.cfg.Stats.Pending.Add(1)
	return ln.pending.PushBack(raw)
}

func (ln *Listener) leave(e *list.Element) {
	ln.mu.Lock()
	ln.pending.Remove(e)
	ln.mu.Unlock()
	ln.cfg.Stats.Pending.Add(-1)
}

// patience is a random time between t and 2t.
func patience(t time.Duration) time.Duration { return t + randomUpTo(t) }

// randomUpTo is a random time below t, which is positive.
func randomUpTo(t time.Duration) time.Duration {
	var b [8]byte
	rand.Read(b[:])
	return time.Duration(binary.BigEndian.Uint64(b[:]) % uint64(t))
}

// serve takes one connection through its handshake, or through what a
// stranger gets.
func (ln *Listener) serve(raw net.Conn, e *list.Element) {
	pending := true
	leave := func() { pending = false; ln.leave(e) }
	defer panics.Recover(nil, func(error) {
		raw.Close()
		if pending {
			leave()
		}
	})
	end := time.Now().Add(patience(ln.cfg.HandshakeTimeout))
	limit := end
	if ln.cfg.Decoy != nil {
		limit = time.Now().Add(ln.cfg.Hold)
	}
	raw.SetDeadline(limit)
	c := ln.cfg.Transport.Wrap(raw)
	if err := c.Handshake(); err != nil {
		ln.cfg.Stats.Failed.Add(1)
		if ln.cfg.Decoy != nil {
			ln.decoy(c)
		} else {
			ln.hold(c, end)
		}
		raw.Close()
		leave()
		return
	}
	raw.SetDeadline(time.Time{})
	leave()
	ln.cfg.Stats.Opened.Add(1)
	select {
	case ln.queue <- struct{}{}:
	default:
		ln.cfg.Stats.Evicted.Add(1)
		raw.Close()
		return
	}
	defer func() { <-ln.queue }()
	select {
	case ln.ready <- c:
	case <-ln.ctx.Done():
		raw.Close()
	}
}

// hold reads and forgets until the connection's time is over or the peer leaves.
func (ln *Listener) hold(c *Conn, end time.Time) {
	c.in.drop()
	c.raw.SetDeadline(end)
	var f *frame
	get := func() []byte {
		if f == nil {
			f = getFrame(smallFrame)
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

// halfCloser is a connection whose sending half can be ended by itself.
type halfCloser interface{ CloseWrite() error }

// Relay copies both ways until both ways have ended, passing each end on, and
// closes both connections. The first error ends both ways.
func Relay(a, b net.Conn) (fromA, fromB int64, err error) {
	var wg sync.WaitGroup
	var once sync.Once
	fail := func(e error) {
		once.Do(func() {
			if !errors.Is(e, net.ErrClosed) && !errors.Is(e, io.ErrClosedPipe) {
				err = e
			}
			a.Close()
			b.Close()
		})
	}
	way := func(dst, src net.Conn, n *int64) {
		var e error
		*n, e = pump(dst, src)
		if e == nil {
			if h, ok := dst.(halfCloser); ok {
				e = h.CloseWrite()
			} else {
				// It can't be told but by closing it, and then the other way
				// is over too.
				a.Close()
				b.Close()
			}
		}
		if e != nil {
			fail(e)
		}
	}
	wg.Go(panics.Contain(nil, fail, func() { way(b, a, &fromA) }))
	panics.Contain(nil, fail, func() { way(a, b, &fromB) })()
	wg.Wait()
	a.Close()
	b.Close()
	return fromA, fromB, err
}

// pump copies src to dst until src ends.
func pump(dst, src net.Conn) (int64, error) {
	if c, ok := src.(*Conn); ok {
		return c.WriteTo(dst)
	}
	if c, ok := dst.(*Conn); ok {
		return c.ReadFrom(src)
	}
	return io.Copy(dst, src)
}
