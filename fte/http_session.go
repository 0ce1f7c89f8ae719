package fte

import (
	"container/list"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/panics"
)

// httpSession is the server side of one connection.
type httpSession struct {
	id    string
	turn  chan struct{}    // is full while a request has the session: see enter
	from  *account.Account // of the first request's address
	mem   *account.Account
	pipe  net.Conn
	out   *httpQueue
	timer *time.Timer
	known bool // the hello was answered
	// answered is true from when the client may have the answer to the last request.
	answered atomic.Bool
	// answering is true from before a request takes bytes until they are written.
	answering atomic.Bool
	inner     *hungryConn
	gone      chan struct{}
	ended     *list.Element // the session's place in the server's over; guarded by the server's mu
}

// enter gives the session to a request, until leave; false: another one has it. The client
// may ask again as soon as it has its answer, on another connection, while the request
// before is still about to leave: that one is waited for.
func (x *httpSession) enter(ctx context.Context) bool {
	select {
	case x.turn <- struct{}{}:
	default:
		if !x.answered.Load() {
			return false
		}
		select {
		case x.turn <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	x.answered.Store(false)
	return true
}

func (x *httpSession) leave() { <-x.turn }

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

// session makes a session for a first request, if the body can begin one. The
// request then has the session, until leave.
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
	x := &httpSession{id: id, turn: make(chan struct{}, 1), pipe: outer, out: newHTTPQueue(), gone: make(chan struct{})}
	x.turn <- struct{}{}
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
	s.settleLocked()
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
