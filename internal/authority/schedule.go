package authority

import "time"

// timing has the times of one round of voting.
type timing struct {
	interval  time.Duration
	vote      time.Time // votes are made and sent
	fetch     time.Time // missing votes are fetched; after that, posted votes are too late
	compute   time.Time // the consensus is computed and signed
	fetchSigs time.Time // missing signatures are fetched
	start     time.Time // the consensus is published: its valid-after
}

// startAfter returns the first start of an interval after now. Intervals are
// counted from midnight; if less than half of an interval would remain at the end
// of a day, the last interval is longer instead (dir-spec, "voting timeline").
func startAfter(now time.Time, interval time.Duration) time.Time {
	now = now.UTC()
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	tomorrow := midnight.AddDate(0, 0, 1)
	next := midnight.Add((now.Sub(midnight)/interval + 1) * interval)
	if next.Add(interval / 2).After(tomorrow) {
		next = tomorrow
	}
	if prev := next.Add(-interval); prev.After(now) {
		next = prev
	}
	return next
}

// round plans the next round whose vote is still ahead.
func (s *Schedule) round(now time.Time, live *lifetime) timing {
	t := timing{interval: s.InitialInterval}
	vote, dist := s.InitialVoteDelay, s.InitialDistDelay
	if live != nil {
		t.interval, vote, dist = live.interval, live.vote, live.dist
	}
	if vote+dist > t.interval/2 {
		vote = t.interval / 4
		if vote > time.Second {
			vote = vote.Truncate(time.Second)
		}
		dist = vote
	}
	for after := now; ; after = t.start {
		t.start = startAfter(after, t.interval)
		t.fetchSigs = t.start.Add(-dist / 2)
		t.compute = t.start.Add(-dist)
		t.fetch = t.compute.Add(-vote / 2)
		t.vote = t.compute.Add(-vote)
		if now.Before(t.fetch) {
			return t
		}
	}
}

// lifetime has the intervals that the valid consensus sets for rounds.
type lifetime struct{ interval, vote, dist time.Duration }
