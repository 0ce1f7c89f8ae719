package channel

import (
	"cmp"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// idleTimeout is how long a channel of a client rests without circuits; half as long again,
// at random, is added.
const idleTimeout = 3 * time.Minute

// restLocked says since when there is no circuit; the zero time: there is one.
func (ch *Channel) restLocked(since time.Time) {
	ch.emptySince = since
	ch.account.Rest(!since.IsZero())
}

// restTime returns for how long the channel rests without circuits, by C tor's rules: a relay
// keeps canonical links to other relays of the network for long, because circuits will soon
// need them again.
func (ch *Channel) restTime() time.Duration {
	p := ch.cfg.Padding.get()
	least := cmp.Or(p.ClientIdle, idleTimeout)
	more := least / 2
	if may := ch.cfg.MayRest; p.RelayIdle > 0 && ch.link.Canonical(ch.RemoteAddr()) && may != nil && may(ch.link) {
		least, more = p.RelayIdle*3/4, p.RelayIdle/2
	}
	return least + time.Duration(ch.luck*float64(more))
}

// maxAge is how old a link is when it gets no new circuits any more, as in C tor: what it
// proved of the peer, and its keys, are of the day when it was opened.
const maxAge = 7 * 24 * time.Hour

func (ch *Channel) old(now time.Time) bool { return now.Sub(ch.opened) > maxAge }

// Reap closes channels that have rested for long enough. The caller calls it from time to
// time.
func (m *Manager) Reap() {
	now := m.cfg.Now()
	for _, ch := range m.Channels() {
		since := now
		if !ch.old(now) {
			since = now.Add(-ch.restTime())
		}
		ch.closeIdle(fault.New(fault.Closed, "channel: idle"), since)
	}
}
