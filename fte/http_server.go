package fte

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"
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
	if s.Transport == nil {
		return nil, errNoTransport
	}
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
	} else if !x.enter(q.r.Context()) {
		// A client waits for one answer before it asks again. A client that does
		// not wait could make every request hold its body here.
		s.refuse(w, q, nil)
		return
	} else {
		defer x.leave()
	}
	body, ok := q.body(most)
	if ok && x == nil {
		if x = s.session(id, len(body), q); x != nil {
			defer x.leave()
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
	x.answering.Store(true)
	defer x.answering.Store(false)
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
	w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	q.write()
	x.answered.Store(true)
	w.Write(out)
	q.rc.Flush() // the process may end as soon as the session has nothing more to send
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

var _ net.Listener = (*HTTPServer)(nil)
