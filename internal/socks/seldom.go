package socks

import (
	"sync"
	"time"
)

// sparing is the least time between two lines of the log that programs can cause at
// any time.
const sparing = time.Minute

// Seldom lets a line into the log once a minute.
type Seldom struct {
	mu   sync.Mutex // guards what follows
	last time.Time  // when it did
}

// Now reports whether a line may be logged now, and if so, notes the time.
func (s *Seldom) Now() bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.IsZero() && now.Sub(s.last) < sparing {
		return false
	}
	s.last = now
	return true
}
