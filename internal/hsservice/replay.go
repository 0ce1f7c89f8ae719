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
	seen map[[16]byte]struct{}
	on   *account.Account
}

// replayCost is what one entry counts on the account, in bytes.
const replayCost = 64

// first reports whether the encrypted part of an introduction is new, and remembers it.
func (r *replays) first(encrypted []byte) bool {
	sum := sha256.Sum256(encrypted)
	key := [16]byte(sum[:16])
	if _, again := r.seen[key]; again {
		return false
	}
	if r.seen == nil {
		r.seen = map[[16]byte]struct{}{}
	}
	r.seen[key] = struct{}{}
	r.on.Reserve(replayCost)
	return true
}

// cookies remembers the rendezvous cookies of the last minutes, of all introduction
// points: a client that sends one introduction through several must not make the
// service come several times.
type cookies struct {
	seen  map[[cell.CookieLen]byte]time.Time
	swept time.Time
}

const (
	cookieLife = 5 * time.Minute
	maxCookies = 1 << 16 // beyond it introductions are dropped
	// cookieSweep is the least time between two looks for old cookies, because each
	// looks at all of them under the service's mutex.
	cookieSweep = time.Second
)

// first reports whether a cookie is new, and remembers it.
func (c *cookies) first(cookie [cell.CookieLen]byte, now time.Time) bool {
	if at, again := c.seen[cookie]; again && now.Sub(at) < cookieLife {
		return false
	}
	if len(c.seen) >= maxCookies {
		c.forget(now)
	}
	if len(c.seen) >= maxCookies {
		return false
	}
	if c.seen == nil {
		c.seen = map[[cell.CookieLen]byte]time.Time{}
	}
	c.seen[cookie] = now
	return true
}

// forget drops those that are too old.
func (c *cookies) forget(now time.Time) {
	if since := now.Sub(c.swept); since >= 0 && since < cookieSweep {
		return
	}
	c.swept = now
	for k, at := range c.seen {
		if now.Sub(at) >= cookieLife {
			delete(c.seen, k)
		}
	}
}
