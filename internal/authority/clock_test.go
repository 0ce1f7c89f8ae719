package authority

import (
	"crypto/rand"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// Commitments belong to one run of the protocol: to one day, if rounds last an
// hour.
func TestSharedRandomRuns(t *testing.T) {
	me, other := ident.RSAID{1}, ident.RSAID{2}
	midnight := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what        string
		before, at  time.Duration // of rounds, after midnight
		same, value bool          // the commitments are kept; a value is computed
	}{
		{"the same run", 3 * time.Hour, 11 * time.Hour, true, false},
		{"its reveal phase", 3 * time.Hour, 23 * time.Hour, true, false},
		{"the same round again", 3 * time.Hour, 3 * time.Hour, true, false},
		{"the next run", 23 * time.Hour, 24 * time.Hour, false, true},
		{"the next run's reveal phase", 23 * time.Hour, 40 * time.Hour, false, true},
		{"away from one commit phase to the next", 3 * time.Hour, 26 * time.Hour, false, false},
		{"away from one reveal phase to the next", 20 * time.Hour, 43 * time.Hour, false, true},
		{"away for a run", 20 * time.Hour, 51 * time.Hour, false, false},
		{"away for a month", 20 * time.Hour, 24*31*time.Hour + 20*time.Hour, false, false},
		{"the clock was a month ahead", 24*31*time.Hour + 3*time.Hour, 4 * time.Hour, false, false},
	} {
		var s sharedRandom
		begin := midnight.Add(c.before.Truncate(24 * time.Hour))
		for at := begin; !at.After(midnight.Add(c.before)); at = at.Add(time.Hour) {
			if err := s.update(rand.Reader, me, []ident.RSAID{me, other}, at, time.Hour); err != nil {
				t.Fatal(err)
			}
			theirs, err := newCommit(rand.Reader, other, at)
			if err != nil {
				t.Fatal(err)
			}
			theirs.Reveal = ""
			s.receive(other, []string{theirs.String()})
		}
		mine := s.Commits[me.String()]
		if err := s.update(rand.Reader, me, []ident.RSAID{me, other}, midnight.Add(c.at), time.Hour); err != nil {
			t.Fatal(err)
		}
		_, theirs := s.Commits[other.String()]
		if kept := mine.Text != "" && s.Commits[me.String()] == mine; kept != c.same || theirs != c.same {
			t.Errorf("%s: own commitment kept: %v, the other's: %v", c.what, kept, theirs)
		}
		if (s.Current != nil) != c.value {
			t.Errorf("%s: value %+v", c.what, s.Current)
		}
		if s.ValidAfter != midnight.Add(c.at) {
			t.Errorf("%s: the state is of %v", c.what, s.ValidAfter)
		}
	}
}

// A run whose start lies in the future, because the clock was ahead, counts as
// zero and not as a negative time.
func TestHistorySetBack(t *testing.T) {
	var h histories
	id, at := ident.RSAID{1}, time.Unix(1e9, 0)
	h.note(id, true, at.Add(30*24*time.Hour))
	if r := h.record(id, at); r.mtbf != 0 || r.wfu != 0 || r.tk != 0 {
		t.Errorf("running: %+v", r)
	}
	h.note(id, false, at.Add(time.Minute))
	if r := h.record(id, at.Add(time.Hour)); r.mtbf != 0 {
		t.Errorf("stopped: %+v", r)
	}
}

// The rounds of an authority follow the wall clock, also past midnight, after the
// machine was suspended, and when a wrong clock is corrected.
func TestRoundsFollowClock(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	synctest.Test(t, func(t *testing.T) {
		var shift atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
		var last atomic.Pointer[netdoc.Consensus]
		all, _ := inMemory(t, 1, identities, signings, func(_ int, c *Config) {
			c.Now = now
			c.Schedule = Schedule{InitialInterval: 30 * time.Minute, Interval: time.Hour, VoteDelay: 5 * time.Minute, DistDelay: 5 * time.Minute}
			c.Published = func(c *netdoc.Consensus) { last.Store(c) }
		})
		shift.Store(int64(30 * 24 * time.Hour)) // the clock is wrong at first
		stop := run(t, all)
		defer stop()
		check := func(what string, want time.Duration) {
			t.Helper()
			synctest.Wait()
			midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			if c := last.Load(); c == nil || !c.ValidAfter.Equal(midnight.Add(want)) || c.ValidAfter.After(now()) || now().Sub(c.ValidAfter) > 2*time.Second {
				t.Fatalf("%s, at %v: the last consensus is %+v", what, now(), c)
			}
		}
		const day = 24 * time.Hour
		time.Sleep(30*time.Minute + time.Second)
		check("a month ahead", 30*day+30*time.Minute)
		shift.Store(0)
		time.Sleep(30 * time.Minute)
		check("the clock was set back", time.Hour)
		time.Sleep(23 * time.Hour)
		check("past midnight", day)
		time.Sleep(10 * time.Minute)
		shift.Add(int64(20 * time.Minute))
		time.Sleep(30 * time.Minute)
		check("suspended between rounds", day+time.Hour)
		time.Sleep(52 * time.Minute) // the vote is cast
		shift.Add(int64(2*time.Hour + 7*time.Minute))
		time.Sleep(61 * time.Minute)
		check("suspended in a round, for more than one", day+5*time.Hour)
	})
}
