package dirserver

import (
	"net/netip"
	"sync"

	"github.com/chivenet/chive/internal/netaddr"
)

// addresses counts the connections of each address, or IPv6 /64, so that one
// that says nothing on many of them does not shut others out.
type addresses struct {
	max int

	mu sync.Mutex // guards what follows
	n  map[netip.Prefix]int
}

func newAddresses(most int) *addresses { return &addresses{max: most, n: map[netip.Prefix]int{}} }

// enter counts a connection, unless the address has too many.
func (c *addresses) enter(a netip.Addr) bool {
	p := netaddr.Peer(a)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[p] >= c.max {
		return false
	}
	c.n[p]++
	return true
}

func (c *addresses) leave(a netip.Addr) {
	p := netaddr.Peer(a)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[p]--; c.n[p] == 0 {
		delete(c.n, p)
	}
}
