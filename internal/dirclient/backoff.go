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
