package hsclient

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/panics"
)

// How many descriptors may be fetched, each on a circuit of its own, in a second and at once:
// for one isolation key, and by the client as a whole. A page can name any number of services,
// and each that does not exist makes the client ask six directories. A page that embeds twenty
// services that exist loads at once, also if two of three directories do not answer.
const (
	keyRate  = 4
	keyBurst = 64
	allRate  = 16
	allBurst = 256
)

// toldTurns is the time between two warnings that fetches wait.
const toldTurns = 10 * time.Minute

// turns says when a descriptor may be fetched. Isolation keys that wait take turns, so that a
// flood with one of them does not delay the fetches of the others.
type turns struct {
	log  *slog.Logger
	tell rate.Sometimes

	mu   sync.Mutex // guards what follows
	all  *rate.Limiter
	keys map[isolation.Key]*bucket // those that wait, or whose bucket is not full; perhaps others
	ring []*bucket                 // those that wait, the one whose turn it is first
	// timer gives the next turn; nil: nobody waits.
	timer *time.Timer
}

// bucket is an isolation key's part.
type bucket struct {
	pace    *rate.Limiter
	waiting []chan struct{} // each is closed when it has its turn
}

func newTurns(log *slog.Logger) *turns {
	return &turns{log: log, tell: rate.Sometimes{Interval: toldTurns}, all: rate.NewLimiter(allRate, allBurst), keys: map[isolation.Key]*bucket{}}
}

// asker returns the key whose bucket counts. It has no destination, because that is what a page
// chooses, and no number of a stream: each would have a bucket of its own.
func asker(k isolation.Key) isolation.Key {
	k.Stream = 0
	k.By &^= isolation.ByDestAddr | isolation.ByDestPort
	return k.Trim()
}

// wait returns when the key may fetch a descriptor, or when ctx ends: then it leaves the line.
func (t *turns) wait(ctx context.Context, key isolation.Key) error {
	b, turn, now := t.enter(asker(key), time.Now())
	if now {
		return nil
	}
	t.tell.Do(func() {
		t.log.Warn("programs ask for many onion services: the descriptors of some are fetched later")
	})
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		t.leave(b, turn)
		return fault.Ended(ctx, "onion service: %w: %w", errInLine, context.Cause(ctx))
	}
}

var errInLine = errors.New("its descriptor waits for its turn, because many are fetched")

// enter stands in line; first says that the turn has come at once.
func (t *turns) enter(key isolation.Key, now time.Time) (b *bucket, turn chan struct{}, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b = t.keys[key]; b == nil {
		t.sweepLocked(now)
		b = &bucket{pace: rate.NewLimiter(keyRate, keyBurst)}
		t.keys[key] = b
	}
	turn = make(chan struct{})
	if b.waiting = append(b.waiting, turn); len(b.waiting) == 1 {
		t.ring = append(t.ring, b)
	}
	t.serveLocked(now)
	return b, turn, !slices.Contains(b.waiting, turn)
}

func (t *turns) leave(b *bucket, turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(b.waiting, turn)
	if i < 0 {
		return // its turn came in the same moment
	}
	if b.waiting = slices.Delete(b.waiting, i, i+1); len(b.waiting) == 0 {
		t.ring = slices.DeleteFunc(t.ring, func(o *bucket) bool { return o == b })
	}
	t.serveLocked(time.Now())
}

// serveLocked gives all turns that may be now, and has the timer give the next one.
func (t *turns) serveLocked(now time.Time) {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	for len(t.ring) > 0 {
		i, wait := t.nextLocked(now)
		if wait > 0 {
			t.timer = time.AfterFunc(wait, panics.Contain(t.log, nil, t.serve))
			return
		}
		b := t.ring[i]
		t.all.AllowN(now, 1)
		b.pace.AllowN(now, 1)
		close(b.waiting[0])
		b.waiting = slices.Delete(b.waiting, 0, 1)
		if t.ring = slices.Delete(t.ring, i, i+1); len(b.waiting) > 0 {
			t.ring = append(t.ring, b)
		}
	}
	t.ring = nil
}

func (t *turns) serve() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serveLocked(time.Now())
}

// nextLocked returns whose turn it is in the ring, or how long it takes until it is somebody's.
func (t *turns) nextLocked(now time.Time) (i int, wait time.Duration) {
	if wait = until(t.all, now); wait > 0 {
		return 0, wait
	}
	for i, b := range t.ring {
		w := until(b.pace, now)
		if w == 0 {
			return i, 0
		}
		if wait == 0 || w < wait {
			wait = w
		}
	}
	return 0, wait
}

// until returns how long it takes until there is a token; zero: there is one.
func until(l *rate.Limiter, now time.Time) time.Duration {
	missing := 1 - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing/float64(l.Limit())*float64(time.Second)) + time.Microsecond // more than is lost in rounding
}

// sweepLocked drops the buckets that are full: a new one is the same. What is left has a bound: a
// bucket is full after 16 seconds, in which the client as a whole gives 512 turns at most.
func (t *turns) sweepLocked(now time.Time) {
	for key, b := range t.keys {
		if len(b.waiting) == 0 && b.pace.TokensAt(now) >= keyBurst {
			delete(t.keys, key)
		}
	}
}

// forget forgets which keys there were, except those that wait.
func (t *turns) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, b := range t.keys {
		if len(b.waiting) == 0 {
			delete(t.keys, key)
		}
	}
}
