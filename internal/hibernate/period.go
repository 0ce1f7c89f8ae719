package hibernate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Interval is the time for which a limit holds: Start belongs to it, End does not.
type Interval struct{ Start, End time.Time }

// length returns how long an interval lasts.
func (iv Interval) length() time.Duration { return iv.End.Sub(iv.Start) }

// Periods divides time into intervals.
type Periods interface {
	// At returns the interval that contains a time.
	At(now time.Time) Interval
}

// unit is how long an interval of a Schedule lasts.
type unit uint8

const (
	monthly unit = iota
	weekly
	daily
)

var units = [...]string{"month", "week", "day"}

// Schedule is intervals of a calendar, as tor(1) describes them ("AccountingStart").
type Schedule struct {
	unit         unit
	day          int // of the month, from 1 to 28, or of the week, from 1 (Monday) to 7 (Sunday)
	hour, minute int
}

// DefaultSchedule begins an interval with each month, at midnight.
const DefaultSchedule = "month 1 0:00"

// ParseSchedule reads "month DAY HH:MM", "week DAY HH:MM" or "day HH:MM".
func ParseSchedule(s string) (Schedule, error) {
	f := strings.Fields(s)
	var out Schedule
	if len(f) == 0 {
		return out, wrong(s, "it names no unit")
	}
	named := false
	for u, name := range units {
		if strings.EqualFold(name, f[0]) {
			out.unit, named = unit(u), true
		}
	}
	if !named {
		return out, wrong(s, fmt.Sprintf("%q is not day, week or month", f[0]))
	}
	rest := f[1:]
	if out.unit != daily {
		last, what := 28, "the day of a month is a number from 1 to 28"
		if out.unit == weekly {
			last, what = 7, "the day of a week is a number from 1 (Monday) to 7 (Sunday)"
		}
		if len(rest) == 0 {
			return out, wrong(s, what)
		}
		d, ok := number(rest[0], 2, last)
		if !ok || d < 1 {
			return out, wrong(s, fmt.Sprintf("%q: %s", rest[0], what))
		}
		out.day, rest = d, rest[1:]
	}
	if len(rest) != 1 {
		return out, wrong(s, "one time, HH:MM, ends it")
	}
	h, m, _ := strings.Cut(rest[0], ":")
	var hours, minutes bool
	out.hour, hours = number(h, 2, 23)
	out.minute, minutes = number(m, 2, 59)
	if !hours || !minutes {
		return out, wrong(s, fmt.Sprintf("%q is not a time of the day, HH:MM", rest[0]))
	}
	return out, nil
}

// wrong returns the error for the text of a Schedule.
func wrong(s, why string) error {
	return fault.New(fault.Config, `%q is not "month DAY HH:MM", "week DAY HH:MM" or "day HH:MM": %s`, s, why)
}

// number reads a number of some digits, up to a greatest one.
func number(s string, digits, most int) (int, bool) {
	if len(s) == 0 || len(s) > digits || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n <= most
}

// String returns what ParseSchedule reads.
func (s Schedule) String() string {
	if s.unit == daily {
		return fmt.Sprintf("day %d:%02d", s.hour, s.minute)
	}
	return fmt.Sprintf("%s %d %d:%02d", units[s.unit], s.day, s.hour, s.minute)
}

// At implements Periods, by the calendar and the clock of now's location.
func (s Schedule) At(now time.Time) Interval {
	now = now.Round(0)
	y, m, d := now.Date()
	months, days := 0, 0 // from one interval to the next
	switch s.unit {
	case monthly:
		d, months = s.day, 1
	case weekly:
		// Go's Sunday is 0.
		d, days = d-(7+int(now.Weekday())-s.day%7)%7, 7
	case daily:
		days = 1
	}
	edge := func(n int) time.Time {
		return time.Date(y, m+time.Month(n*months), d+n*days, s.hour, s.minute, 0, 0, now.Location())
	}
	n := 0
	for now.Before(edge(n)) {
		n--
	}
	// A calendar can skip a day, and a clock an hour.
	for !now.Before(edge(n + 1)) {
		n++
	}
	return Interval{edge(n), edge(n + 1)}
}
