package dirclient

import (
	"log/slog"
	"time"
)

// task is work that is tried again until it succeeds, each time after a longer
// delay.
type task struct {
	at      time.Time     // time of the next attempt
	wait    time.Duration // the time until then when the attempt was planned
	backoff backoff
	pause   pause // in place of backoff, of a client that looks like C tor's
}

func (t *task) plan(at, now time.Time) { t.at, t.wait = at, at.Sub(now) }

// due reports whether it is time for the next attempt, or whether the clock was set
// back, so that the planned time means nothing.
func (t *task) due(now time.Time) bool {
	left := t.at.Sub(now)
	return left <= 0 || left > t.wait+longestSleep
}

// reset begins with the shortest delay again, after a success.
func (t *task) reset() {
	t.backoff.reset()
	t.pause = pause{}
}

func (t *task) settle(err error, now time.Time, log *slog.Logger, what string) {
	if err == nil {
		t.reset()
		return
	}
	t.again(err, t.backoff.next(), now, log, what)
}

// again plans the next attempt after one that has failed.
func (t *task) again(err error, d time.Duration, now time.Time, log *slog.Logger, what string) {
	t.plan(now.Add(d), now)
	log.Info(what+": trying again", "in", d.Round(time.Millisecond), "err", err)
}

// longestSleep bounds the time between two looks at the clock. A timer does not
// count the time while the machine is suspended, and does not follow a clock that
// is set, but a consensus ages by the wall clock.
const longestSleep = time.Minute
