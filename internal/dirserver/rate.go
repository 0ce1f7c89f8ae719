package dirserver

import (
	"sync"
	"time"
)

// bucket bounds a rate.
type bucket struct {
	rate, burst int64

	mu   sync.Mutex // guards what follows
	have int64
	last time.Time
}

// take takes n bytes if there are any at all: a debt delays what follows.
func (b *bucket) take(n int64, now time.Time) bool {
	if b.rate <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	burst := max(b.burst, b.rate)
	if b.last.IsZero() {
		b.have = burst
	} else if d := now.Sub(b.last); d > 0 {
		b.have = min(burst, b.have+int64(float64(b.rate)*d.Seconds()))
	}
	b.last = now
	if b.have <= 0 {
		return false
	}
	b.have -= n
	return true
}
