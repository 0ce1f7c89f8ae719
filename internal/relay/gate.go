package relay

import (
	"container/list"
	"net"
	"sync"
	"sync/atomic"
)

// gate keeps file descriptors in reserve: for exits' connections, the disk,
// and a way to log that there are none left.
type gate struct {
	limit      int64
	handshakes int // how many link handshakes may be under way
	open       atomic.Int64
	strangers  atomic.Int64  // connections from here to addresses of no relay in the consensus
	cutOff     atomic.Uint64 // handshakes that made room for others

	mu      sync.Mutex // guards what follows
	waiting list.List  // connections whose handshake is under way, the oldest first
	place   map[*net.TCPConn]*list.Element
}

// maxHandshakes bounds the link handshakes under way, whatever the descriptors:
// each takes some 50 kB, and an honest one is over in a second.
const maxHandshakes = 4096

// newGate divides the process's file descriptors.
func newGate(descriptors uint64) *gate {
	n := int64(min(descriptors, 1<<20))
	return &gate{limit: n - min(n/4, 1024), handshakes: int(min(max(n/8, 64), maxHandshakes)), place: map[*net.TCPConn]*list.Element{}}
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

// enterStranger counts a connection from here to an address that is no relay's,
// as far as the consensus says: circuits may be extended to where nobody ever
// answers, and must not take all the room so.
func (g *gate) enterStranger() bool {
	if g.strangers.Add(1) > int64(g.handshakes) {
		g.strangers.Add(-1)
		return false
	}
	return true
}

func (g *gate) leaveStranger() { g.strangers.Add(-1) }

// enterHandshake counts a connection whose link handshake is to be done. Who
// connects and stays silent must not keep others out: when there is no room the
// oldest such connection is closed, and its owner finds that out.
func (g *gate) enterHandshake(conn *net.TCPConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting.Len() >= g.handshakes || g.open.Load() >= g.limit {
		oldest := g.waiting.Front()
		if oldest == nil {
			return false
		}
		g.cutOff.Add(1)
		g.dropLocked(oldest).Close()
	}
	g.open.Add(1) // one too many until the owner of what was closed leaves
	g.place[conn] = g.waiting.PushBack(conn)
	return true
}

// leaveHandshake is to be called when the handshake is over, however it went.
func (g *gate) leaveHandshake(conn *net.TCPConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.place[conn]; e != nil {
		g.dropLocked(e)
	}
}

func (g *gate) dropLocked(e *list.Element) *net.TCPConn {
	conn := g.waiting.Remove(e).(*net.TCPConn)
	delete(g.place, conn)
	return conn
}

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
