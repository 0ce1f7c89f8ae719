package relay

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
)

// gate keeps file descriptors in reserve, for the disk and for a way to log
// that there are none left, and bounds the connections that wait for a
// handshake. Exits' connections have descriptors of their own (Relay.wire).
type gate struct {
	limit      int64
	handshakes int // how many link handshakes may be under way
	open       atomic.Int64
	strangers  atomic.Int64  // connections from here to addresses of no relay in the consensus
	cutOff     atomic.Uint64 // handshakes that made room for others

	mu      sync.Mutex // guards what follows
	waiting list.List  // the *waiter of each handshake that is under way, the oldest first
	place   map[*net.TCPConn]*waiter
	from    map[netip.Prefix]*list.List // the same by address
	dialing map[netip.AddrPort]int      // connections from here that are being made
	dials   int                         // of these, those to ORPorts in the consensus
}

// waiter is a connection whose handshake is under way.
type waiter struct {
	conn     *net.TCPConn
	from     netip.Prefix
	all, own *list.Element
}

// ownShare is the part of all handshakes under way from which on an address
// makes room for its new ones itself.
const ownShare = 16

// maxDialing bounds the connections to one port that are being made at once:
// whoever extends circuits there by many names of relays gets no more.
const maxDialing = 4

// maxHandshakes bounds the link handshakes under way, whatever the descriptors:
// each takes some 50 kB, and an honest one is over in a second.
const maxHandshakes = 4096

// newGate divides the process's file descriptors.
func newGate(descriptors uint64) *gate {
	n := int64(min(descriptors, 1<<20))
	return &gate{limit: n - min(n/4, 1024), handshakes: int(min(max(n/8, 64), maxHandshakes)),
		place: map[*net.TCPConn]*waiter{}, from: map[netip.Prefix]*list.List{}, dialing: map[netip.AddrPort]int{}}
}

// room is how many connections there may be: an eighth is for those with relays
// that the consensus lists.
func (g *gate) room(listed bool) int64 {
	if listed {
		return g.limit
	}
	return g.limit - g.limit/8
}

// enter counts one connection, if there is room for it. listed says that a
// relay of the consensus is at its other end, as far as can be told.
func (g *gate) enter(listed bool) bool {
	if g.open.Add(1) > g.room(listed) {
		g.open.Add(-1)
		return false
	}
	return true
}

func (g *gate) leave() { g.open.Add(-1) }

// enterDial counts a connection that is being made to a port. Circuits may be
// extended to where nobody ever answers, and must not take all the room so.
// Connections to where no relay of the consensus is count as strangers, until
// they are closed. leaveDial is to be called when the connection is made or failed.
func (g *gate) enterDial(to netip.AddrPort, known bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.dialing[to] >= maxDialing:
		return fault.New(fault.Resource, "%d connections to that port are being made", maxDialing)
	case known && g.dials >= g.handshakes:
		return fault.New(fault.Resource, "%d connections are being made", g.dials)
	case !known && g.strangers.Load() >= int64(g.handshakes):
		return fault.New(fault.Resource, "too many connections to addresses of no relay in the consensus")
	case !g.enter(known):
		return fault.New(fault.Resource, "the process has no file descriptor to spare")
	case known:
		g.dials++
	default:
		g.strangers.Add(1)
	}
	g.dialing[to]++
	return nil
}

func (g *gate) leaveDial(to netip.AddrPort, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known {
		g.dials--
	}
	if g.dialing[to]--; g.dialing[to] == 0 {
		delete(g.dialing, to)
	}
}

func (g *gate) leaveStranger() { g.strangers.Add(-1) }

// enterHandshake counts a connection whose link handshake is to be done. Whoever
// connects and stays silent must not keep others out: when there is no room the
// oldest such connection is closed, and its owner finds that out. That is the
// oldest of the same address, if that address has many.
func (g *gate) enterHandshake(conn *net.TCPConn, from netip.Addr, listed bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := netaddr.Peer(from)
	own := g.from[key]
	if g.waiting.Len() >= g.handshakes || g.open.Load() >= g.room(listed) {
		oldest := g.waiting.Front()
		if oldest == nil {
			return false
		}
		if own != nil && own.Len() >= max(1, g.handshakes/ownShare) {
			oldest = own.Front()
		}
		w := oldest.Value.(*waiter)
		g.cutOff.Add(1)
		g.dropLocked(w)
		w.conn.Close()
		own = g.from[key]
	}
	if own == nil {
		own = list.New()
		g.from[key] = own
	}
	g.open.Add(1) // one too many until the owner of what was closed leaves
	w := &waiter{conn: conn, from: key}
	w.all, w.own = g.waiting.PushBack(w), own.PushBack(w)
	g.place[conn] = w
	return true
}

// leaveHandshake is to be called when the handshake is over, however it went.
func (g *gate) leaveHandshake(conn *net.TCPConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.place[conn]; w != nil {
		g.dropLocked(w)
	}
}

func (g *gate) dropLocked(w *waiter) {
	g.waiting.Remove(w.all)
	own := g.from[w.from]
	if own.Remove(w.own); own.Len() == 0 {
		delete(g.from, w.from)
	}
	delete(g.place, w.conn)
}

// counted is a link's connection, which leaves the gate when it is closed.
type counted struct {
	*net.TCPConn
	gate   *gate
	from   net.Addr // who is behind it; nil: the socket's word
	closed func()   // may be nil
	once   sync.Once
	count  sync.Once // guards closed, which is called once
}

// forgive takes the connection out of the counts of its address.
func (c *counted) forgive() {
	if c.closed != nil {
		c.count.Do(c.closed)
	}
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
		c.forgive()
	})
	return c.TCPConn.Close()
}
