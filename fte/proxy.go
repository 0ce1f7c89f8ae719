package fte

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/panics"
)

// DefaultMaxConns is the number of connections that a Proxy carries at once
// when its MaxConns is 0.
const DefaultMaxConns = 16384

// Proxy carries TCP connections through a format. As a client it takes plain
// connections and dials a server; as a server it takes formatted ones, and
// dials the plain side only after a peer is authenticated.
type Proxy struct {
	// Dialed wraps the connections that Dial returns (on a client); nil leaves
	// them plain.
	Dialed Transport
	// Dial connects to the other side.
	Dial func(context.Context) (net.Conn, error)
	// DialTimeout bounds Dial and a client's handshake; 0 is 30 seconds.
	DialTimeout time.Duration
	// MaxConns bounds the connections carried at once; further connections are not
	// accepted until one ends. 0 is DefaultMaxConns.
	MaxConns int
	// Log receives errors and warnings, without addresses; nil logs nothing.
	Log *slog.Logger
	// Stats, when set, receives the counts.
	Stats *Stats

	mu    sync.Mutex            // guards conns, dialing and abort
	conns map[net.Conn]net.Conn // accepted to dialled, which is nil before
	wg    sync.WaitGroup
	// dialing is the context of dials. Drain ends it with abort when Drain's
	// context ends. Both are set under mu.
	dialing context.Context
	abort   context.CancelFunc
}

// Serve carries the connections that l accepts, until l fails or is closed. When
// ctx ends, Serve closes l. Open connections then continue; Drain waits for them.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	if p.Dial == nil {
		return fault.New(fault.Config, "the proxy has no Dial")
	}
	if p.Stats == nil {
		p.Stats = new(Stats)
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	if p.MaxConns <= 0 {
		p.MaxConns = DefaultMaxConns
	}
	if p.DialTimeout <= 0 {
		p.DialTimeout = 30 * time.Second
	}
	p.mu.Lock()
	if p.dialing == nil {
		p.dialing, p.abort = context.WithCancel(context.Background())
	}
	p.mu.Unlock()
	l = listen.Patient(l, p.Log, "FTE proxy")
	stop := context.AfterFunc(ctx, panics.Contain(p.Log, nil, func() { l.Close() }))
	defer stop()
	slots := make(chan struct{}, p.MaxConns)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fault.New(fault.Network, "accepting: %w", err)
		}
		p.wg.Go(func() {
			defer panics.Recover(p.Log, func(error) { c.Close() })
			defer func() { <-slots }()
			p.carry(c)
		})
	}
}

// carry connects to the other side and relays bytes.
func (p *Proxy) carry(in net.Conn) {
	if _, ok := in.(*Conn); !ok {
		p.Stats.Accepted.Add(1)
	}
	ctx, cancel := context.WithTimeout(p.dialing, p.DialTimeout)
	defer cancel()
	p.track(in, nil)
	defer p.untrack(in)
	out, err := p.dial(ctx)
	cancel()
	if err != nil {
		p.Stats.DialFailed.Add(1)
		p.Log.Warn("can't reach the other side", "err", HideAddr(err))
		in.Close()
		return
	}
	p.track(in, out)
	p.Stats.Active.Add(1)
	defer p.Stats.Active.Add(-1)
	fromIn, fromOut, err := Relay(in, out)
	if c, ok := out.(*Conn); ok {
		if h, ok := c.raw.(*httpConn); ok { // the process may end after Drain
			h.linger(p.dialing)
		}
	}
	if err != nil {
		p.Stats.Broken.Add(1)
		p.Log.Debug("a connection ended early", "err", HideAddr(err))
	}
	if p.Dialed != nil {
		fromIn, fromOut = fromOut, fromIn
	}
	p.Stats.RecvBytes.Add(uint64(fromIn))
	p.Stats.SentBytes.Add(uint64(fromOut))
}

// dial connects to the other side, and runs a client's handshake.
func (p *Proxy) dial(ctx context.Context) (net.Conn, error) {
	out, err := p.Dial(ctx)
	if err != nil || p.Dialed == nil {
		return out, err
	}
	c := p.Dialed.Wrap(out)
	opened := false
	defer func() {
		if !opened {
			c.Close()
		}
	}()
	if err := c.HandshakeContext(ctx); err != nil {
		p.Stats.Failed.Add(1)
		return nil, err
	}
	opened = true
	p.Stats.Opened.Add(1)
	return c, nil
}

// track lets cut close a connection and, once dialled, its other side: one whose sending
// half has ended is not read any more, and does not end the other by itself.
func (p *Proxy) track(in, out net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		p.conns = make(map[net.Conn]net.Conn)
	}
	p.conns[in] = out
}

func (p *Proxy) untrack(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// cut closes the connections that are open or being made, and returns how many.
func (p *Proxy) cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.abort != nil {
		p.abort()
	}
	for in, out := range p.conns {
		abort(in)
		if out != nil {
			abort(out)
		}
	}
	return len(p.conns)
}

// Drain waits until every connection has ended. When ctx ends, it closes the
// connections that are left or still being made. Call it after Serve has
// returned.
func (p *Proxy) Drain(ctx context.Context) error {
	done := make(chan struct{})
	go panics.Contain(p.Log, nil, func() { p.wg.Wait(); close(done) })()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	n := p.cut()
	<-done
	return fault.New(fault.Timeout, "%d connections were closed unfinished: %w", n, context.Cause(ctx))
}
