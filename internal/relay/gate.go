package relay

import (
	"net"
	"sync"
	"sync/atomic"
)

// gate keeps file descriptors in reserve: for exits' connections, the disk,
// and a way to log that there are none left.
type gate struct {
	limit      int64
	handshakes int64 // how many link handshakes may be under way
	open       atomic.Int64
	waiting    atomic.Int64
}

// newGate divides the process's file descriptors.
func newGate(descriptors uint64) *gate {
	n := int64(min(descriptors, 1<<20))
	return &gate{limit: n - min(n/4, 1024), handshakes: max(n/8, 64)}
}

// enter counts one connection, if there is room for it.
func (g *gate) enter() bool {
	if g.open.Add(1) > g.limit {
		g.open.Add(-1)
		return false
	}
	return true
}

func (g *gate) leave() { g.open.Add(-1) }

// enterHandshake counts a connection whose link handshake is to be done: who
// connects and stays silent must not take all the room.
func (g *gate) enterHandshake() bool {
	if g.waiting.Add(1) > g.handshakes || !g.enter() {
		g.waiting.Add(-1)
		return false
	}
	return true
}

func (g *gate) leaveHandshake() { g.waiting.Add(-1) }

// counted is a link's connection, which leaves the gate when it is closed.
type counted struct {
	*net.TCPConn
	gate   *gate
	from   net.Addr // who is behind it; nil: the socket's word
	closed func()   // may be nil
	once   sync.Once
}

// RemoteAddr returns who is behind the connection.
func (c *counted) RemoteAddr() net.Addr {
	if c.from != nil {
		return c.from
	}
	return c.TCPConn.RemoteAddr()
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.gate.leave()
		if c.closed != nil {
			c.closed()
		}
	})
	return c.TCPConn.Close()
}
