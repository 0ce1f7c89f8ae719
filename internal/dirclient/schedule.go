package dirclient

import (
	"math/rand/v2"
	"time"

	"github.com/chivenet/chive/internal/netdir"
)

// refreshWindow returns when a client may fetch the consensus after d (dir-spec
// 5.1): the window begins three quarters of an interval after the end of
// freshness, and lasts seven eighths of the remaining validity. If interval is
// not zero, it replaces the interval of the consensus, and the window is not
// longer than it: a private network may vote every few seconds for consensuses
// that are valid for hours.
func refreshWindow(d *netdir.Directory, interval time.Duration) (from, to time.Time) {
	fresh := d.FreshUntil()
	longest := d.ValidUntil().Sub(d.ValidAfter())
	if interval == 0 {
		interval = fresh.Sub(d.ValidAfter())
	} else {
		fresh, longest = d.ValidAfter().Add(interval), interval
	}
	from = fresh.Add(interval * 3 / 4)
	if !from.Before(d.ValidUntil()) { // a network whose consensuses expire when they are no longer fresh
		from = fresh
	}
	return from, from.Add(min(max(d.ValidUntil().Sub(from), 0)*7/8, longest))
}

// refreshTime chooses a uniformly random time in the window.
func refreshTime(d *netdir.Directory, interval time.Duration) time.Time {
	from, to := refreshWindow(d, interval)
	if n := to.Sub(from); n > 0 {
		return from.Add(rand.N(n))
	}
	return from
}
