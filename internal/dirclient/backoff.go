package dirclient

import (
	"math/rand/v2"
	"time"
)

// backoff computes the delays between retries with decorrelated jitter (dir-spec
// 5.5): each delay is random, between one second and three times the delay
// before.
type backoff struct{ last time.Duration }

// maxDelay caps the delay. The specification has no useful cap; a client that
// was offline for a day should not wait for another day.
const maxDelay = 10 * time.Minute

// next returns the delay before the next try.
func (b *backoff) next() time.Duration {
	const lower = time.Second
	upper := max(lower+time.Second, 3*b.last)
	b.last = min(lower+rand.N(upper-lower), maxDelay)
	return b.last
}

// reset starts from the shortest delay again, after a success.
func (b *backoff) reset() { b.last = 0 }

// pause computes delays as C tor's clients do: they are whole seconds, and there is no longest one
// (next_random_exponential_delay there).
type pause struct{ last int }

// pauseBound keeps the numbers from an overflow: it is years.
const pauseBound = 1 << 28

// next returns the delay before the next try, at least as many seconds as least and one.
func (p *pause) next(least int) time.Duration {
	low := max(least, 1)
	p.last = min(low+rand.IntN(max(3*p.last-low, 1)), pauseBound)
	return time.Duration(p.last) * time.Second
}
