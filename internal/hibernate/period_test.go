package hibernate

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

func at(s string, loc *time.Location) time.Time {
	t, err := time.ParseInLocation("2006-01-02 15:04:05", s, loc)
	if err != nil {
		panic(err)
	}
	return t
}

func berlin(t *testing.T) *time.Location {
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("NOT TESTED: no time zones: ", err)
	}
	return loc
}

// TestSchedule: intervals are those of C tor's edge_of_accounting_period_containing.
func TestSchedule(t *testing.T) {
	for _, c := range []struct{ schedule, now, start, end string }{
		{"month 1 0:00", "2026-11-28 11:00:00", "2026-11-01 00:00:00", "2026-12-01 00:00:00"},
		{"month 1 0:00", "2026-12-01 00:00:00", "2026-12-01 00:00:00", "2027-01-01 00:00:00"},
		{"month 28 23:59", "2026-03-28 23:58:59", "2026-02-28 23:59:00", "2026-03-28 23:59:00"},
		{"month 28 23:59", "2026-03-28 23:59:00", "2026-03-28 23:59:00", "2026-04-28 23:59:00"},
		{"month 10 12:00", "2027-01-03 00:00:00", "2026-12-10 12:00:00", "2027-01-10 12:00:00"},
		{"week 1 0:00", "2026-11-28 11:00:00", "2026-11-23 00:00:00", "2026-11-30 00:00:00"},
		{"week 7 08:30", "2026-11-29 08:29:59", "2026-11-22 08:30:00", "2026-11-29 08:30:00"},
		{"week 7 08:30", "2026-11-29 08:30:00", "2026-11-29 08:30:00", "2026-12-06 08:30:00"},
		{"week 6 08:30", "2026-11-29 08:30:00", "2026-11-28 08:30:00", "2026-12-05 08:30:00"},
		{"day 6:00", "2026-11-28 05:59:59", "2026-11-27 06:00:00", "2026-11-28 06:00:00"},
		{"day 6:00", "2026-11-28 06:00:00", "2026-11-28 06:00:00", "2026-11-29 06:00:00"},
		{"DAY 6:00", "2026-03-01 00:00:00", "2026-02-28 06:00:00", "2026-03-01 06:00:00"},
	} {
		s, err := ParseSchedule(c.schedule)
		if err != nil {
			t.Fatal(err)
		}
		iv := s.At(at(c.now, time.UTC))
		if !iv.Start.Equal(at(c.start, time.UTC)) || !iv.End.Equal(at(c.end, time.UTC)) {
			t.Errorf("%s at %s: %v to %v", c.schedule, c.now, iv.Start, iv.End)
		}
	}
}

// TestScheduleIsLocal: intervals follow the local clock, also on the days when it is set.
func TestScheduleIsLocal(t *testing.T) {
	loc := berlin(t)
	s, err := ParseSchedule("day 0:00")
	if err != nil {
		t.Fatal(err)
	}
	for day, hours := range map[string]time.Duration{"2026-03-29": 23, "2026-10-25": 25, "2026-07-01": 24} {
		iv := s.At(at(day+" 12:00:00", loc))
		if iv.length() != hours*time.Hour || !iv.Start.Equal(at(day+" 00:00:00", loc)) {
			t.Errorf("%s: %v to %v", day, iv.Start, iv.End)
		}
	}
}

// TestIntervalsFollowEachOther: whatever the schedule, the place and the time, the interval of
// a time contains it, and the next one begins where it ends.
func TestIntervalsFollowEachOther(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	locs := []*time.Location{time.UTC, time.FixedZone("far", 14*3600), berlin(t)}
	for _, name := range []string{"Pacific/Apia", "America/Sao_Paulo", "Australia/Lord_Howe"} { // skipped a day; set at midnight; by half an hour
		if loc, err := time.LoadLocation(name); err == nil {
			locs = append(locs, loc)
		}
	}
	for range 20000 {
		s := Schedule{unit: unit(rng.IntN(3)), day: 1 + rng.IntN(7), hour: rng.IntN(24), minute: rng.IntN(60)}
		if s.unit == monthly {
			s.day = 1 + rng.IntN(28)
		}
		now := time.Unix(rng.Int64N(2e9), 0).In(locs[rng.IntN(len(locs))])
		iv := s.At(now)
		if now.Before(iv.Start) || !now.Before(iv.End) {
			t.Fatalf("%v at %v: %v to %v", s, now, iv.Start, iv.End)
		}
		if last := s.At(iv.End.Add(-time.Second)); !last.Start.Equal(iv.Start) || !last.End.Equal(iv.End) {
			t.Fatalf("%v at %v: %v to %v, and a second before its end %v to %v", s, now, iv.Start, iv.End, last.Start, last.End)
		}
		if next := s.At(iv.End); !next.Start.Equal(iv.End) {
			t.Fatalf("%v at %v: it ends at %v, and the next begins at %v", s, now, iv.End, next.Start)
		}
	}
}

func TestParseSchedule(t *testing.T) {
	for text, want := range map[string]string{
		"month 1 0:00": "month 1 0:00", "  Month 28   23:59 ": "month 28 23:59", "week 7 0:0": "week 7 0:00", "day 08:05": "day 8:05",
	} {
		s, err := ParseSchedule(text)
		if err != nil || s.String() != want {
			t.Errorf("%q: %v %v", text, s, err)
		}
	}
	for text, says := range map[string]string{
		"": "no unit", "year 1 0:00": `"year"`, "month": "1 to 28", "month 29 0:00": `"29"`, "month 0 0:00": `"0"`, "week 8 0:00": "Sunday",
		"week +1 0:00": `"+1"`, "day": "HH:MM", "day 1 0:00": "one time", "day 24:00": `"24:00"`, "day 1:60": "time of the day", "day 1": `"1"`,
		"day 1:": "time of the day", "day :1": "time of the day", "day 1:2:3": "time of the day", "day 001:00": "time of the day", "month 1 0:00 x": "one time", "day -1:00": "time of the day",
	} {
		if s, err := ParseSchedule(text); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v %v", text, s, err)
		}
	}
}

// FuzzSchedule: a schedule that can be read can be read again, and never runs for ever.
func FuzzSchedule(f *testing.F) {
	f.Add("month 1 0:00", int64(1.8e9))
	f.Add("week 7 23:59", int64(-1))
	f.Add("day 2:30", int64(1<<40))
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		s, err := ParseSchedule(text)
		if err != nil {
			return
		}
		if again, err := ParseSchedule(s.String()); err != nil || again != s {
			t.Fatalf("%q: %v, again %v %v", text, s, again, err)
		}
		now := time.Unix(unix%(1<<42), 0)
		if iv := s.At(now); now.Before(iv.Start) || !now.Before(iv.End) {
			t.Fatalf("%v at %v: %v", s, now, iv)
		}
	})
}
