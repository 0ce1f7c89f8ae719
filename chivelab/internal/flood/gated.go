package flood

import (
	"net"
	"sync"
	"sync/atomic"
)

// gated is a connection whose owner can stop reading for ever: the peer's bytes
// stay in the kernel's buffers, and then with the peer. It hides the socket, so
// that no code reads from it in another way.
type gated struct {
	net.Conn
	shut   atomic.Bool
	once   sync.Once
	closed chan struct{}
	stop   func() bool
}

func newGated(c *net.TCPConn) *gated {
	return &gated{Conn: c, closed: make(chan struct{}), stop: func() bool { return true }}
}

// Shut ends reading: from now on Read waits until the connection is closed. A
// Read in progress loses its bytes.
func (g *gated) Shut() { g.shut.Store(true) }

// Read implements net.Conn.
func (g *gated) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if err == nil && g.shut.Load() {
		<-g.closed
		return 0, net.ErrClosed
	}
	return n, err
}

// Close implements net.Conn. It is a reset: a flood leaves no ports waiting.
func (g *gated) Close() error {
	g.once.Do(func() {
		close(g.closed)
		g.stop()
		if c, ok := g.Conn.(*net.TCPConn); ok {
			_ = c.SetLinger(0) // without it, only the port is free later
		}
	})
	return g.Conn.Close()
}
