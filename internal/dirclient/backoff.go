package dirclient

import (
	"math/rand/v2"
	"time"
)

// backoff spaces retries by decorrelated jitter (dir-spec 5.5): each delay is
// random between a second and three times the one before.
type backoff struct{ last time.Duration }

// maxDelay caps the delay. The specification has no cap worth the name; a
// client that was offline for a day should not stay deaf for another.
const maxDelay = 10 * time.Minute

// next returns the delay before the next try.
func (b *backoff) next() time.Duration {
	const lower = time.Second
	upper := max(lower+time.Second, 3*b.last)
	b.last = min(lower+rand.N(upper-lower), maxDelay)
	return b.last
}

// reset begins anew, after a success.
func (b *backoff) reset() { b.last = 0 }
