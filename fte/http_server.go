package fte

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/panics"
)

// HTTPServer is an http.Handler that accepts connections of HTTPDialers, and hands
// every other request to a decoy. Use it with an http.Server that has
// MaxHeaderBytes HTTPHeader and the ConnState of the HTTPServer, and with the
// server side of a Protocol.
type HTTPServer struct {
	// Transport is the protocol of the sessions.
	Transport Transport
	// Decoy answers all requests that belong to no session, for example an
	// httputil.ReverseProxy to a real site; nil answers 404.
	Decoy http.Handler
	// ContentType is the Content-Type header of responses; "" is text/plain.
	ContentType string
	// MaxSessions bounds the sessions; 0 is DefaultMaxConns. Above the bound,
	// sessions that have ended and wait for their last request are dropped first;
	// then the decoy answers new ones.
	MaxSessions int
	// MaxPending bounds the requests under way that may begin a session, each of
	// which holds up to 64 KiB; 0 is DefaultMaxPending. Above the bound, the decoy
	// answers the oldest of the address that has the most.
	MaxPending int
	// MaxMemory bounds the memory of all requests and sessions, in bytes; above it,
	// those that hold the most are ended. 0 is DefaultMaxMemory.
	MaxMemory int64
	// Address is the address that Addr returns.
	Address net.Addr
	// Stats, when set, receives the counts. A session counts as a connection, and a
	// request that the decoy answers as a connection handed to the decoy.
	Stats *Stats

	once  sync.Once
	ready chan *Conn
	done  chan struct{}
	close sync.Once
	mem   *account.Memory
	stop  context.CancelFunc // ends the goroutine of mem

	mu       sync.Mutex // guards what follows
	sessions map[string]*httpSession
	over     list.List // of *httpSession that have ended, the oldest first
	pending  crowd     // of *httpRequest
	conns    crowd     // of *httpPeer
	peers    map[net.Conn]*httpPeer
}

// httpSession is the server side of one connection.
type httpSession struct {
	id    string
	mu    sync.Mutex       // held by the request that is being handled
	from  *account.Account // of the first request's address
	mem   *account.Account
	pipe  net.Conn
	out   *httpQueue
	timer *time.Timer
	known bool // the hello was answered
	inner *hungryConn
	gone  chan struct{}
	ended *list.Element // the session's place in the server's over; guarded by the server's mu
}

// hungryConn carries the bytes of a session between its requests and its Conn. It
// signals when the Conn wants to read more bytes than it was given.
type hungryConn struct {
	net.Conn
	left   atomic.Int64 // bytes of the request's body that were not read yet
	hungry chan struct{}
	out    *httpQueue
	closed func()
}

func (c *hungryConn) Write(p []byte) (int, error) { return c.out.put(p) }

func (c *hungryConn) Close() error {
	c.out.end()
	c.closed()
	return c.Conn.Close()
}

func (c *hungryConn) Read(p []byte) (int, error) {
	if c.left.Load() == 0 {
		signal(c.hungry)
	}
	n, err := c.Conn.Read(p)
	c.left.Add(-int64(n))
	return n, err
}

func (s *HTTPServer) init() {
	s.once.Do(func() {
		s.ready, s.done, s.sessions = make(chan *Conn), make(chan struct{}), map[string]*httpSession{}
		s.pending, s.conns, s.peers = newCrowd(), newCrowd(), map[net.Conn]*httpPeer{}
		if s.MaxSessions <= 0 {
			s.MaxSessions = DefaultMaxConns
		}
		if s.MaxPending <= 0 {
			s.MaxPending = DefaultMaxPending
		}
		if s.ContentType == "" {
			s.ContentType = "text/plain"
		}
		if s.Decoy == nil {
			s.Decoy = http.NotFoundHandler()
		}
		if s.Stats == nil {
			s.Stats = new(Stats)
		}
		if s.MaxMemory <= 0 {
			s.MaxMemory = DefaultMaxMemory
		}
		s.mem = account.New(s.MaxMemory)
		ctx, stop := context.WithCancel(context.Background())
		s.stop = stop
		go panics.Contain(nil, nil, func() {
			second := time.NewTicker(time.Second)
			defer second.Stop()
			s.mem.Run(ctx, second.C, nil)
		})()
	})
}

// Accept returns the next authenticated connection, a *Conn.
func (s *HTTPServer) Accept() (net.Conn, error) {
	s.init()
	select {
	case c := <-s.ready:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

// Addr returns the address of the HTTP server.
func (s *HTTPServer) Addr() net.Addr { return s.Address }

// Close ends Accept and every session.
func (s *HTTPServer) Close() error {
	s.init()
	s.close.Do(func() { close(s.done) })
	s.mu.Lock()
	var all []*httpSession
	for _, x := range s.sessions {
		all = append(all, x)
	}
	s.mu.Unlock()
	for _, x := range all {
		x.inner.Close()
	}
	s.stop()
	return nil
}

// ServeHTTP takes one request of a session, or gives it to the decoy.
func (s *HTTPServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer panics.Recover(nil, func(error) { http.Error(w, "", http.StatusInternalServerError) })
	s.init()
	q := s.receive(w, r)
	defer q.done()
	q.read()
	id, ok := sessionID(r)
	if !ok {
		s.refuse(w, q, nil)
		return
	}
	x, most := s.find(id), httpBody
	if x == nil {
		most = maxHelloText
		defer s.begin(q)()
	} else if !x.mu.TryLock() {
		// A client waits for one answer before it asks again. A client that does
		// not wait could make every request hold its body here.
		s.refuse(w, q, nil)
		return
	} else {
		defer x.mu.Unlock()
	}
	body, ok := q.body(most)
	if ok && x == nil {
		if x = s.session(id, len(body), q); x != nil {
			defer x.mu.Unlock()
		}
	}
	if x == nil || !ok {
		s.refuse(w, q, body)
		return
	}
	x.timer.Reset(HTTPIdle)
	if x.known {
		x.inner.left.Add(int64(len(body)))
	}
	sent := make(chan error, 1)
	go func() {
		defer panics.Recover(nil, func(err error) { x.inner.Close(); sent <- err })
		var err error
		if len(body) > 0 { // a reader sees an empty write
			_, err = x.pipe.Write(body)
		}
		sent <- err
	}()
	ctx, cancel := context.WithCancel(q.r.Context())
	defer cancel()
	hold := httpHold
	if !x.known {
		// A request holds a whole hello or none: if the handshake has read all of
		// it and wants more, it is no hello.
		hold = DefaultHandshakeTimeout
		go func() {
			defer panics.Recover(nil, func(error) { cancel() })
			select {
			case <-x.inner.hungry:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	out, open := x.out.take(ctx, hold)
	if !x.known && len(out) == 0 {
		x.inner.Close()
		s.forget(x)
		s.refuse(w, q, body)
		return
	}
	defer x.mem.Release(len(out))
	x.known = true
	if len(out) == 0 && !open {
		http.NotFound(w, q.r) // the session is over
		return
	}
	select {
	case <-sent:
	case <-x.gone:
	case <-q.r.Context().Done():
		x.inner.Close()
	}
	w.Header().Set("Content-Type", s.ContentType)
	w.Header().Set("Cache-Control", "no-store")
	q.write()
	w.Write(out)
}

// session makes a session for a first request, if the body can begin one. The
// request then holds the session's lock.
func (s *HTTPServer) session(id string, first int, q *httpRequest) *httpSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
		return nil
	default:
	}
	if first == 0 || s.sessions[id] != nil {
		return nil
	}
	if len(s.sessions) >= s.MaxSessions {
		if s.over.Len() == 0 {
			return nil
		}
		s.forgetLocked(s.over.Front().Value.(*httpSession))
	}
	inner, outer := net.Pipe()
	x := &httpSession{id: id, pipe: outer, out: newHTTPQueue(), gone: make(chan struct{})}
	x.mu.Lock()
	var once sync.Once
	x.inner = &hungryConn{Conn: inner, out: x.out, hungry: make(chan struct{}, 1), closed: func() {
		once.Do(func() {
			close(x.gone)
			x.timer.Stop()
			s.ended(x)
		})
	}}
	x.inner.left.Store(int64(first)) // before its reader starts
	x.from = s.mem.Address(q.address())
	x.mem = x.from.Open(account.Connection, func(error) {
		s.forget(x) // waits until x is complete
		s.Stats.Evicted.Add(1)
		x.inner.Close()
	})
	x.mem.Reserve(connCost)
	x.out.mem = x.mem
	x.timer = time.AfterFunc(HTTPIdle, panics.Contain(nil, nil, func() { x.inner.Close() }))
	s.sessions[id] = x
	s.Stats.Accepted.Add(1)
	s.Stats.Pending.Add(1)
	go panics.Contain(nil, func(error) { x.inner.Close() }, func() { s.authenticate(x) })()
	return x
}

// find returns the session of an id, or nil.
func (s *HTTPServer) find(id string) *httpSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

// begin takes a place for a request that may begin a session. If there is no free
// place, it takes the place of another request, which then waits for no more bytes.
// The caller gives the place back with done.
func (s *HTTPServer) begin(q *httpRequest) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending.n >= s.MaxPending {
		old := s.pending.oldest().(*httpRequest)
		s.Stats.Evicted.Add(1)
		old.rc.SetReadDeadline(past)
	}
	p := s.pending.enter(q.from, q)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending.leave(p)
	}
}

// ended keeps a session that is over for a while, so that the client can fetch the
// last bytes.
func (s *HTTPServer) ended(x *httpSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[x.id] == x {
		x.ended = s.over.PushBack(x)
		time.AfterFunc(HTTPIdle, panics.Contain(nil, nil, func() { s.forget(x) }))
	}
}

// forget drops a session.
func (s *HTTPServer) forget(x *httpSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(x)
}

func (s *HTTPServer) forgetLocked(x *httpSession) {
	if s.sessions[x.id] != x {
		return
	}
	delete(s.sessions, x.id)
	if x.ended != nil {
		s.over.Remove(x.ended)
	}
	x.mem.Close()
	x.from.Close()
}

// authenticate runs a session's handshake.
func (s *HTTPServer) authenticate(x *httpSession) {
	raw := x.inner
	c := s.Transport.Wrap(raw)
	c.mem, c.in.mem = x.mem, x.mem
	raw.SetDeadline(time.Now().Add(DefaultHandshakeTimeout))
	err := func() error {
		defer s.Stats.Pending.Add(-1)
		return c.Handshake()
	}()
	if err != nil {
		s.Stats.Failed.Add(1)
		raw.Close()
		return
	}
	s.Stats.Opened.Add(1)
	raw.SetDeadline(time.Time{})
	select {
	case s.ready <- c:
	case <-x.gone: // before the caller accepted it
	case <-s.done:
		raw.Close()
	}
}

var _ net.Listener = (*HTTPServer)(nil)
