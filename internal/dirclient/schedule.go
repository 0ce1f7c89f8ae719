package dirclient

import (
	"math/rand/v2"
	"time"

	"github.com/chivenet/chive/internal/netdir"
)

// refreshWindow returns when a client may fetch the consensus after d (dir-spec
// 5.1): the window begins three quarters of an interval after the end of
// freshness, and lasts seven eighths of the remaining validity. If interval is
// not zero, it is a private network's voting interval, in place of that of the
// consensus, whose first one may be shorter: nobody has to spread many clients over time
// there, so that the window is the half interval after the one in which caches
// fetch (earlyWindow), and clients soon have what the authorities agreed on.
func refreshWindow(d *netdir.Directory, interval time.Duration) (from, to time.Time) {
	fresh := d.FreshUntil()
	delay, longest := fresh.Sub(d.ValidAfter())*3/4, d.ValidUntil().Sub(d.ValidAfter())
	if interval != 0 {
		fresh = d.ValidAfter().Add(interval)
		delay, longest = interval/2, interval/2
	}
	from = fresh.Add(delay)
	if !from.Before(d.ValidUntil()) { // a network whose consensuses expire when they are no longer fresh
		from = fresh
	}
	return from, from.Add(min(max(d.ValidUntil().Sub(from), 0)*7/8, longest))
}

// earlyWindow returns when a relay may fetch the consensus after d: in the half
// interval that follows the end of freshness, and not in its first moments, in which
// authorities may still be collecting signatures (dir-spec, "Downloading consensuses").
func earlyWindow(d *netdir.Directory) (from, to time.Time) {
	fresh := d.FreshUntil()
	interval := fresh.Sub(d.ValidAfter())
	return fresh.Add(min(interval/16, 2*time.Minute)), fresh.Add(interval / 2)
}

// lateWindow returns when a client of bridges fetches the consensus after d, as C tor's do: when all other clients have
// it, and before d is no longer valid (update_consensus_networkstatus_fetch_time_impl).
func lateWindow(d *netdir.Directory) (from, to time.Time) {
	slack := min(d.FreshUntil().Sub(d.ValidAfter())/16, 2*time.Minute)
	if _, all := refreshWindow(d, 0); all.Add(slack).Before(d.ValidUntil().Add(-slack)) {
		return all.Add(slack), d.ValidUntil().Add(-slack)
	}
	return refreshWindow(d, 0)
}

// refreshTime chooses a uniformly random time in the window that follows the latest
// directory.
func (c *Client) refreshTime() time.Time {
	var from, to time.Time
	if c.cfg.Early {
		from, to = earlyWindow(c.latest)
	} else {
		from, to = refreshWindow(c.latest, c.cfg.Network.Testing.VotingInterval)
	}
	if c.cfg.Late && c.paced() {
		from, to = lateWindow(c.latest)
	}
	if n := to.Sub(from); n > 0 {
		return from.Add(rand.N(n))
	}
	return from
}
