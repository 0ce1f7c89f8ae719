package socks

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/nonblock"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/stream"
)

// Limits and times for fields of Config that are zero.
const (
	DefaultMaxConns         = 1024
	DefaultHandshakeTimeout = 30 * time.Second
	DefaultDialTimeout      = 2 * time.Minute
)

// Config says how a Server works. Only Dialer is required.
type Config struct {
	Dialer  Dialer
	Log     *slog.Logger      // nil: silent
	Metrics *metrics.Registry // nil: not counted

	Name      string       // keeps this listener's streams apart from others'; empty: the protocol's name
	Group     string       // listeners with the same group, which is not empty, are as one
	Isolate   isolation.By // keeps streams of this listener apart
	ShareAuth bool         // user names and passwords do not isolate
	KeepAlive bool         // streams with user names prolong the time of their circuit

	Bars       Bars // what is not let through
	PreferIPv6 bool // exits choose IPv6 if a host has both

	ExtendedErrors bool // SOCKS 5 replies with proposal 304's codes
	PreferNoAuth   bool // SOCKS 5 without a user name, if the program offers both

	// SafeSOCKS refuses SOCKS requests for addresses: the program may have looked
	// the name up itself. WarnUnsafe warns of them, once a minute; TestSOCKS logs
	// of every request whether it was one.
	SafeSOCKS, WarnUnsafe, TestSOCKS bool
	Warned                           *Seldom // of these warnings; ports that share it warn once for all. Nil: one of its own

	// Auth is asked about each SOCKS connection's user name and password, which are
	// empty if the program gave none. An error refuses it. The context that it
	// returns reaches the Dialer. Nil: everything is accepted.
	Auth func(ctx context.Context, user, password string) (context.Context, error)

	// NoEarly leaves what a program sends before the reply to the connection: the
	// Dialer need not send Request.Early.
	NoEarly bool

	TProxy bool // connections to a transparent port come by TPROXY, not by REDIRECT

	Private bool // no other machine reaches the listeners, whatever their addresses

	MaxConns         int           // connections at a time; more are closed at once
	HandshakeTimeout time.Duration // from accepting to a whole request
	DialTimeout      time.Duration // from the request to the far end's answer
}

// Server speaks one protocol with local programs. Make one with NewSOCKS, NewHTTP, NewDNS
// or NewTrans, and let it serve one or several listeners.
type Server struct {
	cfg    Config
	handle func(context.Context, *client)
	ctx    context.Context // ends when connections must
	cancel context.CancelFunc
	count  counts
	quiet  time.Duration // quietTime

	mu        sync.Mutex // guards closed, cutting, listeners, conns and numbers
	closed    bool
	cutting   bool // connections are closed, new ones too
	listeners map[interface{ Close() error }]struct{}
	conns     map[connection]struct{}
	terms     stream.Terms   // of those that are joined to their streams
	numbers   uint64         // of clients
	full      Seldom         // when the log last said that there are too many
	told      ration         // of the lines about requests that failed
	loops     sync.WaitGroup // that accept connections or read datagrams: only they begin handlers
	handlers  sync.WaitGroup // open connections and running lookups
}

// counts are a server's metrics.
type counts struct {
	accepted *metrics.Counter
	refused  *metrics.Counter
	evicted  *metrics.Counter
	open     *metrics.Gauge
	dial     *metrics.Histogram
	failed   *metrics.Counter
}

// connection is what a program's connection is served by: a client, and then a joined.
type connection interface{ cut() }

// client is one accepted connection: owned by its handler.
type client struct {
	net.Conn
	s    *Server
	io   io.ReadWriter // Conn, by calls that do not wait: Go's scheduler need not watch these
	br   *bufio.Reader // of io
	addr netip.Addr    // invalid over a unix socket
	at   net.Addr      // of the listener
	log  *slog.Logger
	left bool // it is joined to its stream, and no goroutine serves it any more

	first    []byte // what every reply to its request begins with; none: not known
	probed   bool   // that was sent
	vanished bool   // the program has gone before its answer came

	// guarded by the server's mu
	number uint64 // in the order of their coming
	state  int    // see makeRoomLocked
}

// program returns the program's end of the connection; zero over a unix socket.
func (c *client) program() netip.AddrPort {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return netaddr.PlainPort(a.AddrPort())
	}
	return netip.AddrPort{}
}

// errGone is the reason that requests end with when the program that made them goes.
var errGone = fault.New(fault.Closed, "the program that asked has gone")

// errShut is the reason that connections end with when the server closes.
var errShut = fault.New(fault.Closed, "the proxy is shutting down")

func newServer(protocol string, cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = new(metrics.Registry)
	}
	if cfg.Warned == nil {
		cfg.Warned = new(Seldom)
	}
	if cfg.MaxConns <= 0 {
		cfg.MaxConns = DefaultMaxConns
	}
	if cfg.HandshakeTimeout <= 0 {
		cfg.HandshakeTimeout = DefaultHandshakeTimeout
	}
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = DefaultDialTimeout
	}
	cfg.Name = cmp.Or(cfg.Name, protocol)
	ctx, cancel := context.WithCancel(context.Background())
	label := `{port="` + protocol + `"}`
	m := cfg.Metrics
	return &Server{
		cfg: cfg, ctx: ctx, cancel: cancel, quiet: quietTime,
		listeners: map[interface{ Close() error }]struct{}{},
		conns:     map[connection]struct{}{},
		terms:     stream.Terms{Log: cfg.Log},
		count: counts{
			accepted: m.Counter("chive_port_accepted_total"+label, "Connections and datagrams accepted from local programs."),
			refused:  m.Counter("chive_port_refused_total"+label, "Connections and datagrams turned away at a limit."),
			evicted:  m.Counter("chive_port_evicted_total"+label, "Connections and lookups of local programs that were ended to make room: they had asked for nothing, may have been left, or took longest."),
			open:     m.Gauge("chive_port_open"+label, "Connections and datagrams from local programs in hand."),
			dial:     m.Histogram("chive_port_dial_seconds"+label, "Time from a request to the far end's answer."),
			failed:   m.Counter("chive_port_failed_total"+label, "Requests that were answered with an error."),
		},
	}
}

// key says which circuits a client's stream may use.
func (s *Server) key(protocol string, client netip.Addr, auth isolation.Auth) isolation.Key {
	if s.cfg.ShareAuth {
		auth = isolation.Auth{}
	}
	return isolation.Key{By: s.cfg.Isolate, Listener: cmp.Or(s.cfg.Group, s.cfg.Name), Protocol: protocol, Client: client, Auth: auth, KeepAlive: s.cfg.KeepAlive}.Trim()
}

// Serve accepts connections from l, which it closes, until the server is
// closed or l fails. It returns nil after Shutdown or Close.
func (s *Server) Serve(l net.Listener) error {
	if !s.track(l) {
		l.Close()
		return nil
	}
	defer s.untrack(l)
	s.warnExposed(l.Addr())
	err := listen.Serve(s.ctx, l, s.cfg.Log, "port "+s.cfg.Name, func(c net.Conn) {
		if !s.admit(c, l.Addr()) {
			s.count.refused.Inc()
			s.tellFull()
			c.Close()
		}
	})
	if s.isClosed() {
		return nil
	}
	return fault.Except(fault.Closed, err)
}

// admit serves a connection unless the server is full or cuts connections. One that was accepted just
// before the listener closed is served like those that are open.
func (s *Server) admit(c net.Conn, at net.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cutting || len(s.conns) >= s.cfg.MaxConns && !s.makeRoomLocked() {
		return false
	}
	s.numbers++
	cl := &client{Conn: c, s: s, at: at, log: s.cfg.Log, number: s.numbers}
	s.conns[cl] = struct{}{}
	s.beginLocked(func() (left bool) { return s.serveConn(cl) })
	return true
}

// beginLocked runs f for a client. Shutdown waits until f has ended, and until a
// panic in it was counted and logged; if f leaves the client to others, until these
// call ended. The caller holds mu.
func (s *Server) beginLocked(f func() (left bool)) {
	s.count.accepted.Inc()
	s.count.open.Inc()
	s.handlers.Add(1)
	go panics.Contain(s.cfg.Log, func(error) { s.noteEnd() }, func() {
		stream.GrowStack()
		if !f() {
			s.noteEnd()
		}
	})()
}

// noteEnd counts a client that is served no longer.
func (s *Server) noteEnd() {
	s.count.open.Dec()
	s.handlers.Done()
}

func (c *client) cut() { c.Close() }

// Read implements net.Conn.
func (c *client) Read(p []byte) (int, error) { return c.io.Read(p) }

// Write implements net.Conn.
func (c *client) Write(p []byte) (int, error) { return c.io.Write(p) }

func (s *Server) forget(c connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// tellFull logs that there are too many connections.
func (s *Server) tellFull() {
	if !s.isClosed() && s.full.Now() {
		s.cfg.Log.Warn("too many connections of local programs: new ones are closed; close some, or raise max-connections", "port", s.cfg.Name, "most", s.cfg.MaxConns)
	}
}

// open readies a client for its handler.
func (c *client) open() {
	c.io = nonblock.NewSocket(c.Conn)
	c.br, c.addr = bufio.NewReaderSize(c, handshakeBuffer), netaddr.Of(c.RemoteAddr())
}

// serveConn serves a connection. It reports whether the connection is left to others.
func (s *Server) serveConn(c *client) (left bool) {
	c.open()
	defer func() {
		if left = c.left; !left {
			c.Close()
			s.forget(c)
		}
	}()
	c.SetDeadline(time.Now().Add(s.cfg.HandshakeTimeout))
	// Here, so that a panic is logged before Shutdown can return.
	panics.Contain(s.cfg.Log, nil, func() { s.handle(s.ctx, c) })()
	return false
}

// dial opens a stream for a client after its request. It stops when the program goes
// meanwhile.
func (s *Server) dial(ctx context.Context, c *client, req Request) (conn net.Conn, err error) {
	req.Family, req.Permit, req.From.Port = s.cfg.family(), s.cfg.permits, c.LocalAddr().String()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout)
	defer cancel()
	if early, _ := c.br.Peek(c.br.Buffered()); !s.cfg.NoEarly {
		req.Early = bytes.Clone(early) // reading ahead moves the buffer's contents
	}
	c.present(ctx, func(ctx context.Context) {
		began := time.Now()
		conn, err = s.cfg.Dialer.Dial(ctx, req)
		s.observe(began, err)
	})
	if err == nil {
		c.br.Discard(len(req.Early))
	}
	return conn, err
}

// observe counts the outcome of a request.
func (s *Server) observe(began time.Time, err error) {
	if err != nil {
		s.count.failed.Inc()
		return
	}
	s.count.dial.Observe(time.Since(began))
}

// Shutdown stops listening and waits until the open connections have ended. When
// ctx ends first, Shutdown closes the connections that are left and returns an
// error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopListening()
	done := make(chan struct{})
	go panics.Contain(s.cfg.Log, nil, func() { s.loops.Wait(); s.handlers.Wait(); close(done) })()
	select {
	case <-done:
	case <-ctx.Done():
	}
	var err error
	left := s.startCutting()
	if len(left) > 0 {
		err = fault.New(fault.Timeout, "connections of local programs were cut: %w", context.Cause(ctx))
	}
	s.cancel()
	for _, c := range left {
		c.cut()
	}
	<-done
	return err
}

// startCutting returns the open connections, which the caller closes.
func (s *Server) startCutting() []connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutting = true
	return slices.Collect(maps.Keys(s.conns))
}

// Close ends the listeners and every connection, and waits for them.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errShut)
	s.Shutdown(ctx)
	return nil
}

func (s *Server) stopListening() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
}

func (s *Server) track(l interface{ Close() error }) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.listeners[l] = struct{}{}
	s.loops.Add(1)
	return true
}

func (s *Server) untrack(l interface{ Close() error }) {
	defer s.loops.Done()
	l.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *Server) warnExposed(a net.Addr) {
	if !s.cfg.Private && Exposed(a) {
		s.cfg.Log.Warn("this port is open to other machines: everyone who reaches it can use this client, and the path to it is not encrypted",
			"port", s.cfg.Name, "addr", ident.Hide(a.String()))
	}
}
