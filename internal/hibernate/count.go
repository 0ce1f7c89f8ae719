package hibernate

import "time"

// Count is what a Meter keeps over a restart of the relay.
type Count struct {
	Start   time.Time `json:"interval_start"` // zero: nothing was counted yet
	Read    uint64    `json:"bytes_read"`
	Written uint64    `json:"bytes_written"`
	// Active is for how long the relay served in the interval.
	Active time.Duration `json:"active_nanoseconds"`
	// Wake is when the relay begins to serve, and Woken whether it did: then Wake, which a
	// clock that is set back may make a time to come again, does not count any more.
	Wake  time.Time `json:"wake"`
	Woken bool      `json:"woken"`
	// Expected is how many bytes a minute the relay used, by its rule, in the interval
	// before; 0: unknown.
	Expected uint64 `json:"expected_bytes_a_minute"`
	// At is what the relay had used when little was left, and After how long it had served
	// then: afterwards it takes no new clients, and its use is no measure any more.
	At    uint64        `json:"bytes_at_soft_limit"`
	After time.Duration `json:"active_nanoseconds_at_soft_limit"`
	// Before is the interval that was left for this one: the one before, or a later one if the
	// clock was set back.
	Before *Past `json:"interval_before,omitempty"`
}

// Past is what was counted in an interval that was left.
type Past struct {
	Start   time.Time `json:"interval_start"`
	Read    uint64    `json:"bytes_read"`
	Written uint64    `json:"bytes_written"`
}

// farthest is how far from the present the times of a file may be. Others cannot be written
// again, or overflow a duration.
const farthest = 100 * 365 * 24 * time.Hour

// Sane reports whether a Count, which may come from a file, can be one at all.
func (c *Count) Sane(now time.Time) bool {
	near := func(t time.Time) bool { d := t.Sub(now); return d > -farthest && d < farthest }
	if c.Start.IsZero() {
		return c.Read == 0 && c.Written == 0 && c.Before == nil
	}
	return near(c.Start) && near(c.Wake) && c.Active >= 0 && c.After >= 0 && c.After <= c.Active && (c.Before == nil || near(c.Before.Start))
}
