package hsservice

import (
	"crypto/sha256"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
)

// replays remembers the introductions that came through one introduction point, for
// as long as its key lives (rend-spec-v3, "Preventing replay"): an introduction
// point that sends one twice must not make the service build two circuits.
type replays struct {
	seen map[replayKey]struct{}
	on   *account.Account
}

// replayCost is what one entry counts on the account, in bytes.
const replayCost = 28

// replayKey is what is remembered of the encrypted part of an introduction.
type replayKey [16]byte

func replayKeyOf(encrypted []byte) replayKey {
	sum := sha256.Sum256(encrypted)
	return replayKey(sum[:len(replayKey{})])
}

func (r *replays) knows(k replayKey) bool {
	_, again := r.seen[k]
	return again
}

func (r *replays) add(k replayKey) {
	if r.seen == nil {
		r.seen = map[replayKey]struct{}{}
	}
	r.seen[k] = struct{}{}
	r.on.Reserve(replayCost)
}

// cookies remembers the rendezvous cookies of the last minutes, of all introduction
// points: a client that sends one introduction through several must not make the
// service come several times. It is forgotten by halves: those of the time before
// fresh began are in old. If too many come, cookies are forgotten earlier: to refuse
// all new clients would be worse than to come twice to some.
type cookies struct {
	fresh, old map[[cell.CookieLen]byte]struct{}
	since      time.Time // when fresh began
}

const (
	cookieLife = 5 * time.Minute // at least, unless too many come
	maxCookies = 1 << 16
)

// knows reports whether a cookie was there before.
func (c *cookies) knows(cookie [cell.CookieLen]byte, now time.Time) bool {
	c.forget(now)
	_, fresh := c.fresh[cookie]
	_, old := c.old[cookie]
	return fresh || old
}

func (c *cookies) add(cookie [cell.CookieLen]byte, now time.Time) {
	if c.fresh == nil || len(c.fresh) >= maxCookies/2 {
		c.turn(now)
	}
	c.fresh[cookie] = struct{}{}
}

// forget drops those that are too old.
func (c *cookies) forget(now time.Time) {
	switch age := now.Sub(c.since); {
	case age >= 2*cookieLife:
		c.turn(now)
		c.old = nil
	case age >= cookieLife:
		c.turn(now)
	}
}

func (c *cookies) turn(now time.Time) {
	c.old, c.fresh, c.since = c.fresh, map[[cell.CookieLen]byte]struct{}{}, now
}
