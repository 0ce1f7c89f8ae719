package authority

import "time"

// timing has the times of one round of voting.
type timing struct {
	interval  time.Duration
	vote      time.Time // votes are made and sent
	fetch     time.Time // missing votes are fetched; after that, posted votes are too late
	compute   time.Time // the consensus is computed and signed
	fetchSigs time.Time // missing signatures are fetched
	start     time.Time // the consensus is valid from then on
	publish   time.Time // the consensus is published: start, unless the round is prompt
	// prompt says that steps end earlier if nothing is missing.
	prompt bool
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
	if live == nil && s.Prompt {
		return s.promptRound(now)
	}
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
		t.publish = t.start
		t.fetchSigs = t.start.Add(-dist / 2)
		t.compute = t.start.Add(-dist)
		t.fetch = t.compute.Add(-vote / 2)
		t.vote = t.compute.Add(-vote)
		if now.Before(t.fetch) {
			return t
		}
	}
}

// promptRound plans a round that begins now. Authorities that begin in the same interval agree on its start,
// which is past, so that its consensus is valid when it is published. If they do not, those that were earlier begin
// again: see overtakes. Once they have a consensus, they meet in a later round: see vote.
func (s *Schedule) promptRound(now time.Time) timing {
	t := timing{interval: s.InitialInterval, prompt: true, start: now.UTC().Truncate(s.InitialInterval), vote: now}
	t.compute = now.Add(s.InitialVoteDelay)
	t.fetch = t.compute.Add(-s.InitialVoteDelay / 2)
	t.publish = t.compute.Add(s.InitialDistDelay)
	t.fetchSigs = t.publish.Add(-s.InitialDistDelay / 2)
	return t
}

// overtakes reports whether another authority's prompt round, for the interval that begins at start, is later than this one,
// and one that began now would be later too. So it happens once in each interval, whatever the others send.
func (s *Schedule) overtakes(start time.Time, t *timing, now time.Time) bool {
	return t.prompt && start.After(t.start) && !start.After(now) && s.promptRound(now).start.After(t.start)
}

// lifetime has the intervals that the valid consensus sets for rounds.
type lifetime struct{ interval, vote, dist time.Duration }
