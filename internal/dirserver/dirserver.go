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

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
)

// Peer is who asks.
type Peer struct {
	Addr      netip.Addr // told back in X-Your-Address-Is; invalid when not known
	Tunnelled bool       // the request came through a BEGIN_DIR stream
	MultiHop  bool       // the circuit has other relays before this one
	// Link is the OR link that a tunnelled request came by, as anything that can
	// be compared; nil: not known.
	Link any
	// Circuit is the circuit of a tunnelled request; nil: not known.
	Circuit *circuit.Circuit
	// Account is the circuit's that a tunnelled request belongs to; nil: the
	// request counts for the address.
	Account *account.Account
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

	// Memory is where requests open their accounts; nil: nothing is counted.
	Memory *account.Memory
	// Authorities are the addresses that the network's authorities are known by.
	// An eighth of all room is kept for requests from there, and as much for the
	// relays that the consensus lists and them.
	Authorities []netip.Addr

	MaxConns int // requests under way at once, through each way in (DirPort, BEGIN_DIR); default 2,000
	// MaxPerAddr bounds the requests of one address, or IPv6 /64, through each
	// way in; default an eighth of MaxConns. It does not hold for Authorities, nor for
	// those behind a listed relay's link.
	MaxPerAddr int
	// MaxPerLink bounds the requests of one OR link, and four times it those of a
	// listed relay's; default a sixteenth of MaxConns.
	MaxPerLink int
	// Timeout is how long a peer may send or take nothing. MinRate, in bytes a
	// second, is what it must send and take beyond that time. Defaults 1 minute
	// and 2,000.
	Timeout time.Duration
	MinRate int64
	// MaxUpload is the largest body of a POST to a path; nil: none is read.
	MaxUpload func(path string) int
	// MaxUploads bounds what has come of the bodies that are being read and
	// worked on, together, in bytes; over it, answers are 503. One address has an
	// eighth of it, but for Authorities. Default 256 MB.
	MaxUploads int64
}

// Server answers requests. Its methods may be called from any goroutine.
type Server struct {
	cfg         Config
	authorities map[netip.Addr]bool
	room        *room
	diffs       diffCache
	benches     chan struct{} // who works on strangers' uploads
	begins      begins
	stats       Stats
}

// Stats counts what a server did.
type Stats struct {
	Open                                   atomic.Int64 // requests under way now
	Requests, Refused, BytesOut, DiffsMade atomic.Uint64
	// Quick and Again are the BEGIN_DIRs that were refused, or closed their circuit: those
	// above the consensus's rate, and a relay's second ones.
	Quick, Again atomic.Uint64
}

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
	if cfg.MaxPerLink == 0 {
		cfg.MaxPerLink = max(cfg.MaxConns/16, 1)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.MinRate == 0 {
		cfg.MinRate = 2000
	}
	if cfg.MaxUpload == nil {
		cfg.MaxUpload = func(string) int { return 0 }
	}
	if cfg.MaxUploads == 0 {
		cfg.MaxUploads = 256 << 20
	}
	if m := cfg.Memory.Bound(); m > 0 {
		cfg.MaxUploads = min(cfg.MaxUploads, m/2)
	}
	s := &Server{cfg: cfg, authorities: map[netip.Addr]bool{}, benches: make(chan struct{}, compressors), begins: begins{circs: map[*circuit.Circuit]*begun{}}}
	for _, a := range cfg.Authorities {
		s.authorities[a.Unmap()] = true
	}
	s.room = newRoom(&s.cfg)
	return s
}

// Stats returns the server's counters.
func (s *Server) Stats() *Stats { return &s.stats }

// Serve answers requests on a listener until ctx ends or the listener fails,
// and waits for those under way. It closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	farewells := make(chan struct{}, maxFarewells)
	return listen.Serve(ctx, l, s.cfg.Log, "directory port", func(c net.Conn) {
		peer := Peer{Addr: netaddr.Of(c.RemoteAddr())}
		v := s.room.enter(peer, s.rank(peer.Addr))
		if v != nil {
			wg.Go(panics.Contain(s.cfg.Log, nil, func() { s.serve(ctx, c, v) }))
			return
		}
		select {
		case farewells <- struct{}{}:
			wg.Go(func() {
				defer panics.Recover(s.cfg.Log, func(error) { c.Close() })
				defer func() { <-farewells }()
				s.turnAway(ctx, c, peer)
			})
		default: // saying why would cost too much
			s.stats.Requests.Add(1)
			s.stats.Refused.Add(1)
			c.Close()
		}
	})
}

// maxFarewells bounds the connections that are told at the same time why they
// are closed.
const maxFarewells = 64

// turnAway answers a peer that is not let in.
func (s *Server) turnAway(ctx context.Context, c io.ReadWriteCloser, peer Peer) {
	defer c.Close()
	defer context.AfterFunc(ctx, panics.Contain(s.cfg.Log, nil, func() { c.Close() }))()
	s.stats.Requests.Add(1)
	s.refuse(newPaced(c, &s.cfg), peer)
}

// requestCost is what a request holds by itself, whatever it asks for: a
// goroutine, a buffer to read from, what was parsed. In bytes.
const requestCost = 10 << 10

// open opens the account of a request.
func (s *Server) open(c io.Closer, peer Peer) (a *account.Account, closed func()) {
	kind, above := account.Connection, peer.Account
	if peer.Tunnelled {
		kind = account.Request
	}
	release := func() {}
	if above == nil {
		above = s.cfg.Memory.Address(peer.Addr)
		release = above.Close
	}
	a = above.Open(kind, func(error) { c.Close() })
	a.Reserve(requestCost)
	return a, func() { a.Close(); release() }
}

// serve answers the request of a visit.
func (s *Server) serve(ctx context.Context, conn io.ReadWriteCloser, v *visit) {
	defer v.leave()
	defer conn.Close()
	defer panics.Recover(s.cfg.Log, broke(conn))
	defer context.AfterFunc(ctx, panics.Contain(s.cfg.Log, nil, func() { conn.Close() }))()
	s.stats.Requests.Add(1)
	s.stats.Open.Add(1)
	defer s.stats.Open.Add(-1)
	acct, closed := s.open(conn, v.peer)
	defer closed()
	c := newPaced(conn, &s.cfg)
	res, enc := s.respond(ctx, c, v, acct)
	if res != nil {
		s.write(c, acct, v.peer, enc, res)
	}
}

// respond reads the request and finds the answer and its encoding: nil when
// nobody is there any more, or all was said. It keeps nothing of the request.
func (s *Server) respond(ctx context.Context, c *paced, v *visit, acct *account.Account) (res *Response, enc string) {
	in := &intake{visit: v, acct: acct}
	defer in.close()
	r, err := readRequest(c, s.cfg.MaxUpload, in)
	switch {
	case errors.Is(err, errBusy):
		s.refuse(c, v.peer)
		return nil, ""
	case err != nil && fault.Is(err, fault.Network):
		return nil, ""
	case err != nil:
		s.cfg.Log.Debug("directory request refused", "err", err)
		return Short(400, "Bad request"), ""
	case r.Method == "POST":
		if res = s.post(ctx, v, r); res == nil {
			s.refuse(c, v.peer)
			return nil, ""
		}
	default:
		res = s.answer(ctx, v.peer, r)
	}
	return res, chooseEncoding(r)
}

// post works on an upload; nil: not now. Those of strangers are worked on by a
// few at a time, and each address has its bound: parsing and checking
// signatures costs more than sending what is to be checked.
func (s *Server) post(ctx context.Context, v *visit, r *Request) *Response {
	if v.rank != authority {
		if v.tired() {
			return nil
		}
		wait := time.NewTimer(s.cfg.Timeout)
		defer wait.Stop()
		here := ctx
		if v.wanted != nil {
			var stop func()
			here, stop = v.wanted(ctx)
			defer stop()
		}
		select {
		case s.benches <- struct{}{}:
			defer func() { <-s.benches }()
			if v.tired() { // others of its address were worked on meanwhile
				return nil
			}
		case <-wait.C:
			return nil
		case <-here.Done():
			return nil
		}
	}
	began := time.Now()
	defer func() { v.toiled(time.Since(began)) }()
	return s.answer(ctx, v.peer, r)
}

// refuse answers while there is no room for the request.
func (s *Server) refuse(c *paced, peer Peer) {
	s.stats.Refused.Add(1)
	c.hurry()
	_, _ = c.Write(s.head(peer, Short(503, "Directory busy, try again later"), 0, "")) // best effort
}
