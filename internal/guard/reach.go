package guard

import "time"

// reach says whether a guard can be reached.
type reach uint8

const (
	maybe reach = iota // worth trying
	yes                // tried, and it worked
	no                 // tried, and it failed
)

func (r reach) String() string { return [...]string{"maybe", "yes", "no"}[r] }

// retrySchedule gives the time between attempts at an unreachable guard, which
// depends on how long it has been failing (guard-spec, PRIMARY_GUARDS_RETRY_SCHED
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

// retryAt returns the time at which an unreachable guard may be tried again.
func (g *sampled) retryAt(now time.Time) time.Time {
	return g.lastTried.Add(retryDelay(now.Sub(g.failingSince), g.primary))
}

// considerRetry lets an unreachable guard be tried again when its retry time has
// come, or when the clock was set back, so that the retry time means nothing. A bridge without descriptor stays as it is until
// it was asked for that, which has a timetable of its own.
func (g *sampled) considerRetry(now time.Time) {
	if g.reach == no && !g.bare() && (!now.Before(g.retryAt(now)) || g.lastTried.Sub(now) > time.Minute) {
		g.reach = maybe
	}
}

// silencePause is how long nobody may ask a silent guard until its silence counts anew.
const silencePause = time.Minute

// silent notes that the guard, asked at a time, did not answer until now. It returns for how long it has not
// answered. That nobody asked in a long pause says nothing about the guard.
func (g *sampled) silent(asked, now time.Time) time.Duration {
	if g.silentSince.IsZero() || asked.Sub(g.silentUntil) > silencePause || asked.Before(g.silentSince) {
		g.silentSince = asked
	}
	g.silentUntil = now
	return now.Sub(g.silentSince)
}

// forgive lets an unreachable guard be tried at once. It keeps the time since which
// the guard fails, because the guard is not known to work.
func (g *sampled) forgive() {
	if g.reach == no {
		g.reach, g.forgiven = maybe, true
	}
}
