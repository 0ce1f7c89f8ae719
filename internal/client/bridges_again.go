package client

import (
	"math"
	"math/rand/v2"
	"time"
)

// Who stands before a bridge that gives no descriptor sees when its client tries again. So a client that looks like C tor's keeps
// to the timetable of that (0.4.9.11: fetch_bridge_descriptors, and the schedule of dlstatus.c that counts attempts): it looks once
// a second, and each attempt says when the next is due, whatever becomes of it. The pauses grow without bound, by about a tenth each on
// average, until the bridge answers, somebody uses the client, the guards take the bridge back, or the settings are read again.

// How often a bridge's descriptor is fetched (C tor: every three hours), and, with Config.Fast, how soon again when that fails.
const (
	bridgeRefresh  = 3 * time.Hour
	bridgeRetry    = time.Second
	bridgeRetryMax = time.Minute
	bridgeTimeout  = 30 * time.Second
)

// maxTurns is after how many attempts the pauses stay as they are: C tor counts attempts in a byte, whose last value means never.
const maxTurns = math.MaxUint8 - 1

// turns is a bridge's timetable.
type turns struct {
	next  time.Time     // zero: now, without waiting for a second
	pause time.Duration // before next, in whole seconds
	n     int           // attempts since the start or the last answer
}

// due reports whether the bridge's turn has come. The seconds of the client's clock are not exact. A clock may
// have been set back, and another stands still while the machine is suspended: one of the two is enough.
func (t *turns) due(now time.Time) bool {
	now = now.Add(time.Second / 2)
	return !now.Before(t.next) || !now.Round(0).Before(t.next.Round(0))
}

// begin notes an attempt.
func (t *turns) begin(now time.Time) {
	if t.n < maxTurns {
		t.n++
		last := int64(t.pause / time.Second)
		t.pause = time.Duration(1+rand.N(min(max(3*last, 2), math.MaxInt32)-1)) * time.Second
	}
	t.next = now.Add(t.pause)
}

// failed notes the end of an attempt that began at a time. Those that were due meanwhile count, and asked nobody.
func (t *turns) failed(began, now time.Time) {
	if last := began.Add(bridgeTimeout); now.After(last) { // the machine was suspended
		now = last
	}
	for !t.next.After(now) {
		t.begin(t.next)
	}
}

// answered notes an attempt that succeeded.
func (t *turns) answered(now time.Time) { *t = turns{next: now.Add(bridgeRefresh)} }

// anew has the pauses begin anew, at the next second.
func (t *turns) anew(now time.Time) { *t = turns{next: now} }

// turn waits until a bridge is to be asked; false: it was removed.
func (bs *bridges) turn(b *bridge) bool {
	if bs.c.cfg.Fast {
		return bs.turnFast(b)
	}
	for first := bs.fresh(b); bs.c.whileDormant(b.ctx); first = false {
		if !first {
			select {
			case <-bs.c.seconds.wait():
			case <-b.ctx.Done():
				return false
			}
		}
		if !bs.c.Dormant() && bs.takeTurn(b, time.Now()) {
			return true
		}
	}
	return false
}

// fresh reports whether a bridge was never asked.
func (bs *bridges) fresh(b *bridge) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	return b.turns.next.IsZero()
}

// takeTurn reports whether it is a bridge's turn, and notes the attempt then.
func (bs *bridges) takeTurn(b *bridge, now time.Time) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.c.guards.TakenBack(b.id.RSA) {
		b.turns.anew(now)
	}
	if !b.turns.due(now) {
		return false
	}
	b.turns.begin(now)
	return true
}

// turnFast is turn of a client that is quick: it tries again after at most a minute.
func (bs *bridges) turnFast(b *bridge) bool {
	bs.mu.Lock()
	next := b.turns.next
	bs.mu.Unlock()
	t := time.NewTimer(time.Until(next))
	defer t.Stop()
	select {
	case <-t.C:
	case <-b.ctx.Done():
		return false
	}
	return bs.c.whileDormant(b.ctx)
}

// asked notes what became of an attempt that began at a time, and returns when the next one is due.
func (bs *bridges) asked(b *bridge, err error, began time.Time) time.Time {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	now, t := time.Now(), &b.turns
	b.err = err
	switch {
	case err == nil:
		t.answered(now)
	case bs.c.cfg.Fast:
		t.pause = min(max(2*t.pause, bridgeRetry), bridgeRetryMax)
		t.next = now.Add(t.pause)
	default:
		t.failed(began, now)
	}
	return t.next
}

// anew has all bridges asked again, as C tor's clients ask them when they have read their settings.
func (bs *bridges) anew() {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, b := range bs.all {
		if !b.turns.next.IsZero() {
			b.turns.anew(time.Now())
		}
	}
}

// wanted notes a request that circuits shall serve. If there can be none for want of a directory, and nothing is being asked that
// could change that, bridges that are down are tried again at the next second (guards_retry_optimistic in C tor).
func (bs *bridges) wanted() {
	if bs == nil || bs.asking() || bs.c.caches.busy() || bs.c.dirs.Ready(bs.c.dirs.Directory(), time.Now()) {
		return
	}
	bs.c.guards.RetryPrimary()
}

// asking reports whether a bridge is being asked for its descriptor.
func (bs *bridges) asking() bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, b := range bs.all {
		if b.asking {
			return true
		}
	}
	return false
}
