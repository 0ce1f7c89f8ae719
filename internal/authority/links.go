package authority

import (
	"container/list"
	"net"
	"net/netip"
	"sync"

	"github.com/chivenet/chive/internal/netaddr"
)

// Bounds on the ORPort's connections: of all peers together, of all except
// authorities, of strangers, and of one address or IPv6 /64. The last bound does
// not apply to authorities.
const (
	maxLinks         = 4096
	maxOtherLinks    = maxLinks * 7 / 8
	maxStrangerLinks = maxLinks * 3 / 4
	maxLinksEach     = 64
)

// linkCount counts the connections of an ORPort, from Accept until the link has
// closed.
type linkCount struct {
	mu   sync.Mutex // guards what follows
	all  int
	each map[netip.Prefix]int
}

// enter counts a connection, unless a bound is reached.
func (c *linkCount) enter(from netip.Addr, authority, listed bool) (leave func(), ok bool) {
	room := maxStrangerLinks
	if listed {
		room = maxOtherLinks
	}
	key := netaddr.Peer(from)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxLinks || !authority && (c.all >= room || c.each[key] >= maxLinksEach) {
		return nil, false
	}
	if c.each == nil {
		c.each = map[netip.Prefix]int{}
	}
	c.all++
	c.each[key]++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all--
		if c.each[key]--; c.each[key] == 0 {
			delete(c.each, key)
		}
	}), true
}

// handshakes are the link handshakes in progress. Peers that connect and stay
// silent must not keep others out: when the bound is reached, the oldest
// connection is closed.
type handshakes struct {
	mu    sync.Mutex // guards what follows
	order list.List  // of net.Conn, the oldest first
	place map[net.Conn]*list.Element
}

func (h *handshakes) enter(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.place == nil {
		h.place = map[net.Conn]*list.Element{}
	}
	if h.order.Len() >= maxHandshakes {
		oldest := h.order.Remove(h.order.Front()).(net.Conn)
		delete(h.place, oldest)
		oldest.Close()
	}
	h.place[c] = h.order.PushBack(c)
}

func (h *handshakes) leave(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.place[c]; e != nil {
		h.order.Remove(e)
		delete(h.place, c)
	}
}
