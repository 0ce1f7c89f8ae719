package authority

import (
	"container/list"
	"net"
	"net/netip"
	"sync"

	"github.com/chivenet/chive/internal/netaddr"
)

// Bounds on the ORPort's connections: all of them, those that others than
// authorities have, those that strangers have, and those of one address or IPv6
// /64, which only authorities' may exceed.
const (
	maxLinks         = 4096
	maxOtherLinks    = maxLinks * 7 / 8
	maxStrangerLinks = maxLinks * 3 / 4
	maxLinksEach     = 64
)

// linkCount counts the connections of an ORPort, from when they are taken until
// their link has closed.
type linkCount struct {
	mu   sync.Mutex // guards what follows
	all  int
	each map[netip.Prefix]int
}

// enter counts a connection, if there is room for it.
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

// handshakes are the link handshakes under way. Whoever connects and stays silent
// must not keep others out: when there is no room, the oldest is closed.
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
