package fte

import (
	"sync"
	"time"
)

// A hello is accepted while its time lies within helloWindow of the server's
// clock, and remembered for as long. The memory is bounded by maxSeen entries a
// generation, 20 MB; only a peer that has the certificate can fill it, with 145
// hellos a second for two hours. While it is full, the server refuses new hellos
// and forgets no old one.
const (
	helloWindow = time.Hour
	maxSeen     = 1 << 20
	// restartSlack is how much older than the server's start a hello may be: the
	// server does not remember hellos from before its start.
	restartSlack = 5 * time.Minute
)

// helloID identifies a hello. It is a part of a hash that the sender cannot
// choose, long enough that no two remembered hellos have the same one.
type helloID [8]byte

// replayCache remembers hellos in two generations of helloWindow*2 each, so that
// it forgets no hello whose time the server would still accept.
type replayCache struct {
	mu      sync.Mutex // guards started, turned, current and before
	max     int
	started time.Time
	turned  time.Time
	current map[helloID]struct{}
	before  map[helloID]struct{}
}

func newReplayCache(max int, now time.Time) *replayCache {
	return &replayCache{max: max, started: now, turned: now, current: map[helloID]struct{}{}}
}

// fresh reports whether a hello may be accepted at now, and remembers it if so.
// An honest client's id is uniformly random.
func (r *replayCache) fresh(id helloID, stamp, now time.Time) bool {
	// The time since the start is that of the monotonic clock: the wall clock may have
	// been wrong then, and set since.
	if d := now.Sub(stamp); d > helloWindow || d < -helloWindow || d-now.Sub(r.started) > restartSlack {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := now.Sub(r.turned); age >= 2*helloWindow {
		r.before = r.current
		if age >= 4*helloWindow {
			r.before = nil
		}
		r.current, r.turned = map[helloID]struct{}{}, now
	}
	if _, ok := r.current[id]; ok {
		return false
	}
	if _, ok := r.before[id]; ok {
		return false
	}
	if len(r.current) >= r.max {
		return false
	}
	r.current[id] = struct{}{}
	return true
}
