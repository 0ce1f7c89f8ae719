package fte

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// HTTPServer is an http.Handler that accepts connections of HTTPDialers, and
// hands every other request to a decoy. Use it below net/http's server, and
// give it the server side of a Protocol.
type HTTPServer struct {
	// Transport is the protocol inside.
	Transport Transport
	// Decoy answers what is no session, such as an httputil.ReverseProxy to a
	// real site; nil answers 404.
	Decoy http.Handler
	// ContentType is what responses say that their bodies are; "" is text/plain.
	ContentType string
	// MaxSessions bounds the sessions; 0 is DefaultMaxConns. Beyond it, new ones
	// get the decoy.
	MaxSessions int
	// MaxPending bounds the requests under way that may begin a session, each of
	// which holds up to 64 KiB; 0 is DefaultMaxPending. Beyond it, the oldest gets
	// the decoy.
	MaxPending int
	// Address is the address that Addr returns.
	Address net.Addr
	// Stats, when set, is counted into; a session is a connection there, and
	// each request that the decoy answers is one that was handed to it.
	Stats *Stats

	once  sync.Once
	ready chan *Conn
	done  chan struct{}
	close sync.Once

	mu       sync.Mutex // guards what follows
	sessions map[string]*httpSession
	pending  list.List // of *http.ResponseController, the oldest first
}

// httpSession is one connection's server side.
type httpSession struct {
	mu    sync.Mutex // one request at a time
	pipe  net.Conn
	out   *httpQueue
	timer *time.Timer
	known bool // the hello was answered
	inner *hungryConn
	gone  chan struct{}
}

// hungryConn is what a server reads a session's requests from and writes its
// responses to. It tells when its reader wants more than it was given.
type hungryConn struct {
	net.Conn
	left   atomic.Int64 // bytes that were announced and not read yet
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
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		x.inner.Close()
	}
	return nil
}

// ServeHTTP takes one request of a session, or gives it to the decoy.
func (s *HTTPServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer panics.Recover(nil, func(error) { http.Error(w, "", http.StatusInternalServerError) })
	s.init()
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(HTTPIdle)) // an error: the server's own limits have to do
	// The server's last write comes after this.
	defer func() { rc.SetWriteDeadline(time.Now().Add(HTTPIdle)) }()
	id, ok := sessionID(r)
	if !ok {
		s.refuse(w, r, nil)
		return
	}
	most := httpBody
	if !s.known(id) {
		most = maxHelloText
		defer s.begin(rc)()
	}
	body, ok := readBody(rc, r, most)
	if !ok {
		s.refuse(w, r, body)
		return
	}
	x := s.session(id, len(body))
	if x == nil {
		s.refuse(w, r, body)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
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
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	hold := httpHold
	if !x.known {
		// A request holds a whole hello or none: when it was read and more is
		// wanted, the answer is no.
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
		s.forget(id)
		s.refuse(w, r, body)
		return
	}
	x.known = true
	if len(out) == 0 && !open {
		http.NotFound(w, r) // the session is over
		return
	}
	select {
	case <-sent:
	case <-x.gone:
	case <-r.Context().Done():
		x.inner.Close()
	}
	w.Header().Set("Content-Type", s.ContentType)
	w.Header().Set("Cache-Control", "no-store")
	rc.SetWriteDeadline(time.Now().Add(HTTPIdle))
	w.Write(out)
}

// session returns a session, and makes it when a body can begin one.
func (s *HTTPServer) session(id string, first int) *httpSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.sessions[id]; x != nil {
		return x
	}
	select {
	case <-s.done:
		return nil
	default:
	}
	if first == 0 || len(s.sessions) >= s.MaxSessions {
		return nil
	}
	inner, outer := net.Pipe()
	x := &httpSession{pipe: outer, out: newHTTPQueue(), gone: make(chan struct{})}
	var once sync.Once
	x.inner = &hungryConn{Conn: inner, out: x.out, hungry: make(chan struct{}, 1), closed: func() {
		once.Do(func() {
			close(x.gone)
			x.timer.Stop()
			// What was written last can still be fetched.
			time.AfterFunc(HTTPIdle, panics.Contain(nil, nil, func() { s.forget(id) }))
		})
	}}
	x.inner.left.Store(int64(first)) // before its reader starts
	x.timer = time.AfterFunc(HTTPIdle, panics.Contain(nil, nil, func() { x.inner.Close() }))
	s.sessions[id] = x
	s.Stats.Accepted.Add(1)
	s.Stats.Pending.Add(1)
	go panics.Contain(nil, func(error) { x.inner.Close() }, func() { s.authenticate(x.inner) })()
	return x
}

// known says whether there is a session.
func (s *HTTPServer) known(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id] != nil
}

// begin takes a place for a request that may begin a session, from the oldest
// if there is none: what that sends is waited for no longer. The place is given
// back by the function that it returns.
func (s *HTTPServer) begin(rc *http.ResponseController) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending.Len() >= s.MaxPending {
		old := s.pending.Remove(s.pending.Front()).(*http.ResponseController)
		s.Stats.Evicted.Add(1)
		old.SetReadDeadline(time.Unix(1, 0))
	}
	e := s.pending.PushBack(rc)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending.Remove(e)
	}
}

// forget drops a session.
func (s *HTTPServer) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
}

// authenticate runs a session's handshake.
func (s *HTTPServer) authenticate(raw net.Conn) {
	c := s.Transport.Wrap(raw)
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
	case <-s.done:
		raw.Close()
	}
}

var _ net.Listener = (*HTTPServer)(nil)
