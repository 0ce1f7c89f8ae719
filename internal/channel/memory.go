package channel

import "github.com/chivenet/chive/internal/cell"

// The memory of objects that a peer makes us keep, in bytes, without the cells that
// are queued on them. It is about what they take of the heap and of stacks; a test
// of package relay measures it. Half of an idle link is the stacks of its goroutines, a quarter what TLS
// keeps: the space for the ClientHello, 3.5 kB, which package tls gives no way to take back, AES-GCM in both
// directions and the connection's own state.
const (
	linkCost      = 12 << 10 // TLS, a goroutine; buffers are added while they are held
	handshakeCost = 15 << 10 // TLS and a goroutine; bytes read are added
	circCost      = 512      // one CircuitEnd

	// usualHandshake is how many bytes of a link handshake linkCost has room for; an honest peer sends
	// 6 kB. TLS keeps the space for the peer's longest message, such as a ClientHello, as long as the link.
	usualHandshake = 8 << 10
)

// Greedy reports whether the link holds more than its share while memory is short.
func (ch *Channel) Greedy() bool { return ch.account.Greedy() }

// rank says whether the link is the last to be closed when memory is short.
func (ch *Channel) rank() {
	if ch.cfg.Last != nil {
		ch.account.Last(ch.cfg.Last(ch.link))
	}
}

// Rank asks Config.Last about all open links again.
func (m *Manager) Rank() {
	for _, ch := range m.Channels() {
		ch.rank()
	}
}

// evict closes the channel because it holds too much.
func (ch *Channel) evict(cause error) { ch.Close(cause) }

// evict destroys the circuit because it holds too much.
func (c *CircuitEnd) evict(cause error) {
	c.end(cell.DestroyResourceLimit, cause)
}
