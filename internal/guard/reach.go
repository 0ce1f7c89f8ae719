package guard

import "time"

// reach is whether a guard can be connected to.
type reach uint8

const (
	maybe reach = iota // worth trying
	yes                // tried, and it worked
	no                 // tried, and it failed
)

func (r reach) String() string { return [...]string{"maybe", "yes", "no"}[r] }

// retrySchedule says how long after an attempt an unreachable guard is tried
// again, by how long it has been failing (guard-spec, PRIMARY_GUARDS_RETRY_SCHED
// and GUARDS_RETRY_SCHED).
var retrySchedule = []struct {
	failing        time.Duration // up to this long
	primary, other time.Duration
}{
	{6 * time.Hour, 10 * time.Minute, time.Hour},
	{4 * 24 * time.Hour, 90 * time.Minute, 4 * time.Hour},
	{7 * 24 * time.Hour, 4 * time.Hour, 18 * time.Hour},
	{1<<63 - 1, 9 * time.Hour, 36 * time.Hour},
}

func retryDelay(failing time.Duration, primary bool) time.Duration {
	for _, s := range retrySchedule {
		if failing <= s.failing {
			if primary {
				return s.primary
			}
			return s.other
		}
	}
	panic("guard: the last retry schedule has no end") // its bound is the longest duration
}

// retryAt is when an unreachable guard may be tried again.
func (g *sampled) retryAt(now time.Time) time.Time {
	return g.lastTried.Add(retryDelay(now.Sub(g.failingSince), g.primary))
}

// considerRetry makes an unreachable guard worth trying when its time has come,
// or can no longer be told because the clock was set back.
func (g *sampled) considerRetry(now time.Time) {
	if g.reach == no && (!now.Before(g.retryAt(now)) || g.lastTried.Sub(now) > time.Minute) {
		g.reach = maybe
	}
}

// forgive makes an unreachable guard worth trying at once. Since when it fails
// is remembered: it is not known to work.
func (g *sampled) forgive() {
	if g.reach == no {
		g.reach = maybe
	}
}
