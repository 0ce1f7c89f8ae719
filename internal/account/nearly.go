package account

import "sync/atomic"

// Nearly remembers whether a total is near its bound. It comes near at nearAt of the bound, and is near until it is
// below farAt, so that a total that goes up and down a little comes near once.
type Nearly struct{ near atomic.Bool }

// In hundredths of the bound.
const (
	nearAt = 80
	farAt  = 60
)

// Look takes the present values, in bytes (bound 0: there is none), and reports whether the total has come near since the last call. One
// goroutine at a time may call it.
func (n *Nearly) Look(used, bound int64) (came bool) {
	// The bound may be as large as an integer can be.
	switch was := n.near.Load(); {
	case !was && bound > 0 && used >= bound/100*nearAt:
		n.near.Store(true)
		return true
	case was && used < bound/100*farAt:
		n.near.Store(false)
	}
	return false
}

// Near reports whether the total was near at the last Look. Any goroutine may call it.
func (n *Nearly) Near() bool { return n.near.Load() }
