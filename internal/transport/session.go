package transport

import (
	"context"
	"net"
	"sync"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

var errEnded = fault.New(fault.Closed, "the transport's connection is closed, and opens no others")

// session is all that a transport opens for one connection.
type session struct {
	dial DialFunc
	life context.Context // ends with the connection
	stop context.CancelCauseFunc

	mu    sync.Mutex // guards what follows
	ended bool
	open  map[net.Conn]struct{}
}

// newSession begins a session. It outlives ctx: a connection stays open when its dial is done.
func newSession(ctx context.Context, dial DialFunc) *session {
	s := &session{dial: dial, open: map[net.Conn]struct{}{}}
	s.life, s.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	return s
}

// connect is the function by which the transport reaches the network. It ends with the
// session, whatever the transport's context says.
func (s *session) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	if ctx == nil {
		return nil, fault.New(fault.Local, "the transport gave no context")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, panics.Contain(nil, nil, func() { cancel(errEnded) }))()
	if s.life.Err() != nil {
		return nil, errEnded
	}
	c, err := s.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	own := &opened{Conn: c, by: s}
	if !s.keep(own) {
		c.Close()
		return nil, errEnded
	}
	return own, nil
}

func (s *session) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.open[c] = struct{}{}
	return true
}

func (s *session) forget(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// end closes what is open, and lets nothing else be opened. Further calls do nothing.
func (s *session) end() {
	all := s.takeAll() // first: what a dial gives after its context's end is not taken
	s.stop(errEnded)
	for _, c := range all {
		c.Close()
	}
}

func (s *session) takeAll() (all []net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for c := range s.open {
		all = append(all, c)
	}
	clear(s.open)
	return all
}

// opened is a connection that a transport has opened.
type opened struct {
	net.Conn
	by *session
}

// CloseWrite ends the sending half, if the connection below can.
func (c *opened) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return fault.New(fault.Local, "the connection has no half that can be closed")
}

func (c *opened) Close() error {
	c.by.forget(c)
	return c.Conn.Close()
}
