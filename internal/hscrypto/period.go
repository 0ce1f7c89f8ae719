package hscrypto

import "time"

// Bounds of the length of a time period, in minutes: those of the consensus
// parameter hsdir_interval (param-spec).
const (
	MinPeriod     = 5
	DefaultPeriod = 1440
	MaxPeriod     = 14400
)

// Period is a time period (rend-spec-v3, TIME-PERIODS). In each period a service
// has a different blinded key, and so different directories.
type Period struct {
	Num     uint64
	Minutes uint64 // its length
}

// PeriodAt returns the period of length minutes that contains t. Periods begin
// offset, twelve voting intervals, after multiples of their length.
func PeriodAt(t time.Time, minutes uint64, offset time.Duration) Period {
	since := t.Add(-offset).Unix()
	if since < 0 {
		since = 0 // before the first period
	}
	return Period{Num: uint64(since) / 60 / minutes, Minutes: minutes}
}

// Start returns when the period begins.
func (p Period) Start(offset time.Duration) time.Time {
	return time.Unix(int64(p.Num*p.Minutes*60), 0).Add(offset).UTC()
}

// End returns when the next period begins.
func (p Period) End(offset time.Duration) time.Time { return p.Next().Start(offset) }

// Next returns the period after p.
func (p Period) Next() Period { return Period{p.Num + 1, p.Minutes} }

// Prev returns the period before p.
func (p Period) Prev() Period { return Period{p.Num - 1, p.Minutes} }
