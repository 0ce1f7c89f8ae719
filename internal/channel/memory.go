package channel

import "github.com/chivenet/chive/internal/cell"

// What the objects that a peer makes us keep count on the account of memory, in
// bytes, besides what is queued on them: about what they take of the heap and of
// stacks, as a test of package relay measures it.
const (
	linkCost      = 57 << 10 // buffers of a record, TLS, two goroutines
	handshakeCost = 15 << 10 // TLS and a goroutine; what was read is added
	circCost      = 512      // a circuit's end on a channel
)

// Greedy reports whether the link holds more than its share of little memory.
func (ch *Channel) Greedy() bool { return ch.account.Greedy() }

// evict closes the channel because it holds too much.
func (ch *Channel) evict(cause error) { ch.Close(cause) }

// evict destroys the circuit because it holds too much.
func (c *Circ) evict(cause error) {
	r := c.receiver()
	if c.destroy(cell.DestroyResourceLimit) && r != nil {
		r.HandleDestroy(cell.DestroyResourceLimit, cause)
	}
}
