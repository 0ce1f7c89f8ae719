// Package dirserver serves directory documents over HTTP (dir-spec, "directory
// server operation"): on BEGIN_DIR streams and on a DirPort, for a relay that
// caches and for an authority.
package dirserver

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Peer is who asks.
type Peer struct {
	Addr      netip.Addr // told back in X-Your-Address-Is; invalid when not known
	Tunnelled bool       // the request came through a BEGIN_DIR stream
	MultiHop  bool       // the circuit has other relays before this one
}

// Handler answers what Server does not know: votes, uploads, onion-service
// descriptors. Nil means that the path is not known.
type Handler func(ctx context.Context, peer Peer, r *Request) *Response

// Config says what is served and within which bounds. The zero value of every
// other field than Docs means its default.
type Config struct {
	Docs  Documents
	Extra Handler          // asked first; may be nil
	Now   func() time.Time // default time.Now
	Log   *slog.Logger     // default none

	MaxConns int // requests under way at once; default 2,000
	// MaxPerAddr bounds the connections that Serve takes from one address, or
	// IPv6 /64; default an eighth of MaxConns.
	MaxPerAddr int
	Timeout    time.Duration // of reading a request and of writing each part of an answer; default 1 minute
	// MaxUpload is the largest body of a POST to a path; nil: none is read.
	MaxUpload func(path string) int
	// MaxUploads bounds the bodies that are being read and worked on, together;
	// over it, answers are 503. Default 256 MB.
	MaxUploads int64
	// Rate bounds the bytes a second of all answers together, Burst what may
	// go out at once; over it, all but small answers are 503. Zero: no bound.
	Rate, Burst int64
}

// Server answers requests. Its methods may be called from any goroutine.
type Server struct {
	cfg   Config
	slots chan struct{}
	rate  bucket
	held  atomic.Int64 // bytes of uploads
	diffs diffCache
	stats Stats
}

// Stats counts what a server did.
type Stats struct{ Requests, Refused, BytesOut atomic.Uint64 }

// New returns a server.
func New(cfg Config) *Server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxConns == 0 {
		cfg.MaxConns = 2000
	}
	if cfg.MaxPerAddr == 0 {
		cfg.MaxPerAddr = max(cfg.MaxConns/8, 1)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.MaxUpload == nil {
		cfg.MaxUpload = func(string) int { return 0 }
	}
	if cfg.MaxUploads == 0 {
		cfg.MaxUploads = 256 << 20
	}
	return &Server{cfg: cfg, slots: make(chan struct{}, cfg.MaxConns), rate: bucket{rate: cfg.Rate, burst: cfg.Burst}}
}

// Stats returns the server's counters.
func (s *Server) Stats() *Stats { return &s.stats }

// Serve answers requests on a listener until ctx ends or the listener fails,
// and waits for those under way. It closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var wg sync.WaitGroup
	defer wg.Wait()
	from := newAddresses(s.cfg.MaxPerAddr)
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, net.ErrClosed) {
				return fault.New(fault.Closed, "directory port: %w", err)
			}
			// Too many open files, or a connection that is gone already: those
			// under way end before long.
			s.cfg.Log.Warn("directory port: accept", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		peer := Peer{}
		if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
			peer.Addr = a.AddrPort().Addr().Unmap()
		}
		if !from.enter(peer.Addr) {
			s.stats.Refused.Add(1)
			c.Close()
			continue
		}
		wg.Go(func() {
			defer from.leave(peer.Addr)
			s.ServeConn(ctx, c, peer)
		})
	}
}

// deadliner is a connection whose waits can be bounded.
type deadliner interface{ SetDeadline(time.Time) error }

// ServeConn answers one request and closes the connection.
func (s *Server) ServeConn(ctx context.Context, c io.ReadWriteCloser, peer Peer) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	s.stats.Requests.Add(1)
	touch := func() {}
	if d, ok := c.(deadliner); ok {
		// The connection's clock, whatever Config.Now is. A closed connection
		// fails at its next use.
		touch = func() { _ = d.SetDeadline(time.Now().Add(s.cfg.Timeout)) }
	}
	touch()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		s.refuse(c, peer)
		return
	}
	var held int64
	defer func() { s.held.Add(-held) }()
	r, err := readRequest(c, s.cfg.MaxUpload, func(n int) bool {
		held = int64(n)
		return s.held.Add(held) <= s.cfg.MaxUploads
	})
	var res *Response
	switch {
	case errors.Is(err, errBusy):
		s.refuse(c, peer)
		return
	case err != nil && fault.Is(err, fault.Network):
		return // nobody is there any more
	case err != nil:
		s.cfg.Log.Debug("directory request refused", "err", err)
		res = Short(400, "Bad request")
	default:
		res = s.answer(ctx, peer, r)
	}
	s.write(c, touch, peer, r, res)
}

// refuse answers while there is no room for the request.
func (s *Server) refuse(c io.Writer, peer Peer) {
	s.stats.Refused.Add(1)
	_, _ = c.Write(s.head(peer, Short(503, "Directory busy, try again later"), 0, "")) // best effort
}

// bucket bounds a rate.
type bucket struct {
	rate, burst int64

	mu   sync.Mutex // guards what follows
	have int64
	last time.Time
}

// take takes n bytes if there are any at all: a debt delays what follows.
func (b *bucket) take(n int64, now time.Time) bool {
	if b.rate <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	burst := max(b.burst, b.rate)
	if b.last.IsZero() {
		b.have = burst
	} else if d := now.Sub(b.last); d > 0 {
		b.have = min(burst, b.have+int64(float64(b.rate)*d.Seconds()))
	}
	b.last = now
	if b.have <= 0 {
		return false
	}
	b.have -= n
	return true
}
