package fte

import (
	"sync"
	"time"
)

// A hello is accepted while its time lies within helloWindow of the server's
// clock, and remembered for as long. The memory is bounded by maxSeen entries
// a generation, 20 MB; only who holds the certificate can fill it, with 145
// hellos a second for two hours, and while it is full, hellos are refused
// rather than forgotten.
const (
	helloWindow = time.Hour
	maxSeen     = 1 << 20
	// restartSlack is how much older than the server's start a hello may be:
	// what came before the start isn't remembered.
	restartSlack = 5 * time.Minute
)

// helloID names a hello: a part of a hash that its sender can't choose, long
// enough that no two of those that are remembered meet.
type helloID [8]byte

// replayCache remembers hellos in two generations of helloWindow*2 each, so
// that none is forgotten while its time would still be accepted.
type replayCache struct {
	mu      sync.Mutex
	max     int
	started time.Time
	turned  time.Time
	current map[helloID]struct{}
	before  map[helloID]struct{}
}

func newReplayCache(max int, now time.Time) *replayCache {
	return &replayCache{max: max, started: now, turned: now, current: map[helloID]struct{}{}}
}

// fresh says whether a hello may be accepted at now, and remembers it if so.
// id names it, uniformly random for an honest client.
func (r *replayCache) fresh(id helloID, stamp, now time.Time) bool {
	if d := now.Sub(stamp); d > helloWindow || d < -helloWindow || r.started.Sub(stamp) > restartSlack {
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
