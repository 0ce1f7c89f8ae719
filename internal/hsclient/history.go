package hsclient

import (
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

const (
	// forgive is how long an introduction point's failures are remembered, and
	// maxUnreachable how many failed circuits to it are too many, as in C tor.
	forgive        = 2 * time.Minute
	maxUnreachable = 5
	// maxHistories bounds the histories that are kept, and maxNoted the introduction points
	// of each.
	maxHistories = 1024
	maxNoted     = 64
)

// history is what went wrong lately with one service, for the streams of one isolation key.
// A service notices what its failures change: which introduction point a client tries
// first, and how much work it does. So streams that must not be linked have histories of
// their own. An attempt uses the history that it has begun with: what it notes after
// NewIdentity is not seen by later attempts.
type history struct {
	c     *Client
	key   connKey
	epoch int // of the client when it was made

	// guarded by c.mu
	used   time.Time                       // by an attempt that began, or noted something
	points map[ident.Ed25519ID]*pointState // by their authentication keys
	misses int                             // how often the service did not come when it was introduced
	missAt time.Time                       // the last of them
}

// pointState is what went wrong with an introduction point lately.
type pointState struct {
	at          time.Time
	refused     bool // it knows no such service, or cannot be used
	late        bool // it did not answer
	silent      bool // it took an introduction, and the service did not come for a while
	unreachable int  // circuits to it that failed
}

func (s *pointState) unusable(now time.Time) bool {
	return s != nil && now.Sub(s.at) < forgive && (s.refused || s.late || s.unreachable >= maxUnreachable)
}

// historyLocked returns the history for an attempt that begins.
func (c *Client) historyLocked(k connKey) *history {
	now := time.Now()
	h := c.histories[k]
	if h == nil {
		for key, o := range c.histories {
			if now.Sub(o.used) >= forgive+connectTimeout { // no attempt has it any more
				delete(c.histories, key)
			}
		}
		makeRoom(c.histories, maxHistories, func(o *history) time.Time { return o.used }, func(key connKey) { delete(c.histories, key) })
		h = &history{c: c, key: k, epoch: c.epoch, points: map[ident.Ed25519ID]*pointState{}}
		c.histories[k] = h
	}
	h.used = now
	return h
}

// note changes what is remembered of a point.
func (h *history) note(p *netdoc.HSIntroPoint, change func(*pointState)) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	now := time.Now()
	for k, s := range h.points {
		if now.Sub(s.at) >= forgive {
			delete(h.points, k)
		}
	}
	s := h.points[p.Auth]
	if s == nil {
		makeRoom(h.points, maxNoted, func(s *pointState) time.Time { return s.at }, func(k ident.Ed25519ID) { delete(h.points, k) })
		s = new(pointState)
		h.points[p.Auth] = s
	}
	s.at, h.used = now, now
	change(s)
}

// usable returns the introduction points to try, in a random order, but those last from
// which the service did not come lately. late says that there is none because none of them
// answers.
func (h *history) usable(desc *cached) (out []*netdoc.HSIntroPoint, late bool) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	now := time.Now()
	late = true
	var last []*netdoc.HSIntroPoint
	for i := range desc.inner.Points {
		p := &desc.inner.Points[i]
		switch s := h.points[p.Auth]; {
		case s.unusable(now):
			late = late && s.late
		case s != nil && s.silent && now.Sub(s.at) < forgive:
			last = append(last, p)
		default:
			out = append(out, p)
		}
	}
	shuffle(out)
	shuffle(last)
	return append(out, last...), late
}

// noteWait notes how long the service took to come after an introduction. A point where this
// took long is tried after the others for a while: its host may be dead.
func (h *history) noteWait(p *netdoc.HSIntroPoint, came bool, took time.Duration) {
	if slow := took >= slowService; slow || came {
		h.note(p, func(s *pointState) { s.silent = slow })
	}
}

// recentMisses returns how often the service did not come lately.
func (h *history) recentMisses() int {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	if time.Since(h.missAt) < forgive {
		return h.misses
	}
	return 0
}

// noteMissed remembers that the service did not come n times in one race. Races at the same time
// do not add up.
func (h *history) noteMissed(n int) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	now := time.Now()
	if n >= h.misses || now.Sub(h.missAt) >= forgive {
		h.misses, h.missAt, h.used = n, now, now
	}
}
