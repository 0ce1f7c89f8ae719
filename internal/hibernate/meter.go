package hibernate

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"
)

// State is what a relay may do.
type State uint8

// The states.
const (
	Awake   State = iota // it serves
	Soft                 // little is left: it takes no new connections, circuits and streams
	Dormant              // nothing is left, or the relay has not woken yet: it closes everything
)

// String returns the name of a state.
func (s State) String() string { return [...]string{"awake", "soft", "dormant"}[s] }

// Limit is what a Meter holds a relay to.
type Limit struct {
	Max     uint64 // bytes of an interval, by Rule
	Rule    Rule
	Periods Periods
	Rate    uint64 // the greatest number of bytes a second in each direction; 0: unknown
	// Seed differs between relays, and stays the same: with the interval it decides when the
	// relay wakes.
	Seed []byte
}

// Meter counts. It is for one goroutine at a time.
type Meter struct {
	limit Limit
	count Count
	end   time.Time
}

// NewMeter returns a meter that goes on from a count, which must be sane; the zero Count
// begins a new one.
func NewMeter(l Limit, c Count, now time.Time) *Meter {
	m := &Meter{count: c}
	m.Set(l, now)
	return m
}

// Set changes the limit. What has been counted stays, unless another interval begins.
func (m *Meter) Set(l Limit, now time.Time) {
	m.limit = l
	m.turn(now)
}

// Count returns what has been counted.
func (m *Meter) Count() Count { return m.count }

// Used returns the bytes that count against the limit.
func (m *Meter) Used() uint64 { return m.limit.Rule.Of(m.count.Read, m.count.Written) }

// Interval returns the present interval.
func (m *Meter) Interval() Interval { return Interval{m.count.Start, m.end} }

// Wake returns when the relay begins to serve in the present interval.
func (m *Meter) Wake() time.Time { return m.count.Wake }

// jump is the longest time between two calls of Add that counts as time of service: a longer
// one is that of a machine which was suspended, or of a clock that was set.
const jump = 10 * time.Second

// Add counts bytes that moved in the time since the last call, and then decides what the relay
// may do.
func (m *Meter) Add(now time.Time, since time.Duration, read, written uint64) State {
	before := m.state(now)
	m.turn(now)
	m.count.Read, m.count.Written = add(m.count.Read, read), add(m.count.Written, written)
	if since > 0 && since < jump && before != Dormant {
		m.count.Active += since
	}
	s := m.state(now)
	if s != Awake && before == Awake && m.Used() >= m.soft() {
		m.count.At, m.count.After = m.Used(), m.count.Active
	}
	m.count.Woken = m.count.Woken || !now.Before(m.count.Wake)
	return s
}

// State returns what the relay may do at a time of the present interval.
func (m *Meter) State(now time.Time) State {
	m.turn(now)
	return m.state(now)
}

func (m *Meter) state(now time.Time) State {
	switch used := m.Used(); {
	case used >= m.limit.Max, !m.count.Woken && now.Before(m.count.Wake):
		return Dormant
	case used >= m.soft():
		return Soft
	}
	return Awake
}

// The soft limit is reached when little is left in every respect, as in C tor.
const (
	softLeft    = 20             // a twentieth of the limit
	softBytes   = 500 << 20      // bytes
	softMinutes = uint64(3 * 60) // the use of this time
)

// soft returns the number of bytes at which the relay takes no new clients. It is less than the
// limit, unless that is so small that nothing would be left.
func (m *Meter) soft() uint64 {
	left := min(m.limit.Max/softLeft, softBytes)
	if e := m.count.Expected; e > 0 && e < math.MaxUint64/softMinutes {
		left = min(left, e*softMinutes)
	}
	return m.limit.Max - left
}

// turn begins the interval of now, if it is another one than the present. An interval that
// moves by less than half of its length is the same one, of which the schedule has changed: its
// bytes stay counted. So are those of a later interval, if the clock is set back. The interval
// that was left is remembered with its bytes, because a clock that jumps and comes back must not
// give the relay its limit twice.
func (m *Meter) turn(now time.Time) {
	now = now.Round(0)
	c := &m.count
	iv := m.limit.Periods.At(now)
	m.end = iv.End
	if c.Start.IsZero() {
		*c = Count{Start: iv.Start, Wake: iv.Start}
		return
	}
	moved, half := iv.Start.Sub(c.Start), iv.length()/2
	if moved == 0 {
		return
	}
	left, known := &Past{c.Start, c.Read, c.Written}, Past{}
	if c.Before != nil && apart(c.Before.Start, iv.Start) <= half {
		known = *c.Before
	}
	switch {
	case moved > half:
		*c = Count{Start: iv.Start, Expected: m.expect(), Read: known.Read, Written: known.Written, Before: left}
		c.Wake = m.wake(iv)
		return
	case moved < -half:
		c.Read, c.Written, c.Before = add(c.Read, known.Read), add(c.Written, known.Written), left
	}
	c.Start = iv.Start
	if c.Wake.Before(iv.Start) || !c.Wake.Before(iv.End) {
		c.Wake = iv.Start
	}
}

// apart returns the time between two times, in either order.
func apart(a, b time.Time) time.Duration {
	if d := a.Sub(b); d >= 0 {
		return d
	}
	return b.Sub(a)
}

// measured is the least time of service after which its use says how much to expect.
const measured = 30 * time.Minute

// expect returns how many bytes a minute the relay used in the present interval, which is over;
// 0: it served too briefly to tell.
func (m *Meter) expect() uint64 {
	used, served := m.Used(), m.count.Active
	if m.count.At > 0 && m.count.After >= measured {
		used, served = m.count.At, m.count.After
	}
	if served < measured {
		return 0
	}
	each := used / uint64(served/time.Minute)
	if r := m.limit.Rate; r > 0 && r < math.MaxUint64/120 {
		each = min(each, m.limit.Rule.Of(60*r, 60*r))
	}
	return each
}

// wake chooses when the relay begins to serve: so early that its bytes can still be used up,
// if its use is as before, and at another time than other relays.
func (m *Meter) wake(iv Interval) time.Time {
	if m.count.Expected == 0 {
		return iv.Start
	}
	minutes := m.limit.Max / m.count.Expected
	free := iv.length() - time.Duration(min(minutes, uint64(iv.length()/time.Minute)+1))*time.Minute
	if free <= 0 {
		return iv.Start
	}
	sum := sha256.Sum256(append(iv.Start.UTC().AppendFormat(nil, time.RFC3339), m.limit.Seed...))
	return iv.Start.Add(time.Duration(binary.BigEndian.Uint64(sum[:])%uint64(max(free/time.Second, 1))) * time.Second)
}
