package relay

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
)

// gate keeps file descriptors in reserve, for files and for the log, and bounds
// the connections that wait for a handshake. The connections of an exit have a
// separate share of the descriptors (Relay.wire).
type gate struct {
	limit      int64
	handshakes int // how many link handshakes may be in progress
	open       atomic.Int64
	strangers  atomic.Int64  // connections from here to addresses that are no relay's in the consensus
	cutOff     atomic.Uint64 // handshakes that were closed in favour of others

	mu      sync.Mutex // guards what follows
	waiting list.List  // the *waiter of each handshake in progress, the oldest first
	place   map[net.Conn]*waiter
	from    map[netip.Prefix]*list.List // the same by address
	dialing map[netip.AddrPort]int      // connections from here that are not yet open
	dials   int                         // of these, those to ORPorts in the consensus
}

// waiter is a connection whose handshake is in progress.
type waiter struct {
	conn     net.Conn
	from     netip.Prefix
	all, own *list.Element
}

// ownShare: an address with more than this part of all handshakes, 1/16, loses
// its own oldest one for each new one.
const ownShare = 16

// maxDialing bounds the connections to one port that are being opened at the same
// time: a client that extends circuits to it by many relay identities gets no
// more.
const maxDialing = 4

// maxHandshakes bounds the link handshakes in progress, even with many file
// descriptors: each uses about 50 kB, and an honest one ends within a second.
const maxHandshakes = 4096

// newGate divides the process's file descriptors.
func newGate(descriptors uint64) *gate {
	n := int64(min(descriptors, 1<<20))
	return &gate{limit: n - min(n/4, 1024), handshakes: int(min(max(n/8, 64), maxHandshakes)),
		place: map[net.Conn]*waiter{}, from: map[netip.Prefix]*list.List{}, dialing: map[netip.AddrPort]int{}}
}

// room returns how many connections there may be: an eighth is reserved for
// relays in the consensus.
func (g *gate) room(listed bool) int64 {
	if listed {
		return g.limit
	}
	return g.limit - g.limit/8
}

// enter counts one connection, unless the limit is reached. listed says that, as
// far as is known, the peer is a relay in the consensus.
func (g *gate) enter(listed bool) bool {
	if g.open.Add(1) > g.room(listed) {
		g.open.Add(-1)
		return false
	}
	return true
}

func (g *gate) leave() { g.open.Add(-1) }

// enterDial counts a connection that is being opened to a port. Clients can
// extend circuits to ports that never answer, and must not use up all connections
// with them. Connections to a port of no relay in the consensus count as
// strangers, until they are closed. The caller must call leaveDial when the
// connection is open or has failed.
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

// enterHandshake counts a connection before its link handshake. Peers that
// connect and stay silent must not keep others out: when the limit is reached,
// the oldest waiting connection is closed, and its reads and writes fail. If the
// address of the new connection has many handshakes, its own oldest one is
// closed.
func (g *gate) enterHandshake(conn net.Conn, from netip.Addr, listed bool) bool {
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
	g.open.Add(1) // one too many until the owner of the closed connection leaves
	w := &waiter{conn: conn, from: key}
	w.all, w.own = g.waiting.PushBack(w), own.PushBack(w)
	g.place[conn] = w
	return true
}

// leaveHandshake must be called when the handshake has ended, with success or
// not.
func (g *gate) leaveHandshake(conn net.Conn) {
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

// ticket is a connection's place in the counts.
type ticket struct {
	gate   *gate
	closed func() // may be nil
	once   sync.Once
	count  sync.Once // guards closed, which is called once
}

// forgive removes the connection from the counts of its address.
func (t *ticket) forgive() {
	if t.closed != nil {
		t.count.Do(t.closed)
	}
}

// leave removes the connection from all counts.
func (t *ticket) leave() {
	t.once.Do(func() {
		t.gate.leave()
		t.forgive()
	})
}

// gatedConn is a link's connection, which leaves the gate when it is closed. The gate knows it by Conn, which may
// be of any type that can be compared.
type gatedConn struct {
	net.Conn
	ticket
	from net.Addr // the client behind it; nil: the address of the connection
}

// RemoteAddr returns the address of the client behind the connection.
func (c *gatedConn) RemoteAddr() net.Addr {
	if c.from != nil {
		return c.from
	}
	return c.Conn.RemoteAddr()
}

// SyscallConn implements syscall.Conn: a channel writes to a socket of the kernel's directly. It is an error where
// there is none, and then the channel uses Read and Write alone.
func (c *gatedConn) SyscallConn() (syscall.RawConn, error) { return socketOf(c.Conn) }

// SetLinger implements channel.Resettable.
func (c *gatedConn) SetLinger(seconds int) error { return setLinger(c.Conn, seconds) }

func setLinger(conn net.Conn, seconds int) error {
	if c, ok := conn.(channel.Resettable); ok {
		return c.SetLinger(seconds)
	}
	return errNoSocket
}

func (c *gatedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// socketOf returns the kernel's socket of a connection. Connections of a transport in this process, or of an
// emulated network, have none.
func socketOf(conn net.Conn) (syscall.RawConn, error) {
	if sc, ok := conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errNoSocket
}

var errNoSocket = fault.Also(fault.New(fault.Local, "this connection has no socket"), errors.ErrUnsupported)
