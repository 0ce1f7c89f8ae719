package hibernate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const (
	mega = 1 << 20
	giga = 1 << 30
)

var month = Schedule{unit: monthly, day: 1}

func meter(l Limit, c Count, now time.Time) *Meter {
	if l.Periods == nil {
		l.Periods = month
	}
	return NewMeter(l, c, now)
}

var noon = at("2026-11-10 12:00:00", time.UTC)

// TestRules: which bytes count is what tor(1) says of AccountingRule.
func TestRules(t *testing.T) {
	for name, want := range map[string]uint64{"max": 7, "sum": 10, "in": 3, "out": 7} {
		r, ok := RuleOf(name)
		if !ok || r.String() != name || r.Of(3, 7) != want {
			t.Errorf("%s: %v %v %d", name, r, ok, r.Of(3, 7))
		}
	}
	if r, ok := RuleOf("both"); ok {
		t.Error(r)
	}
	if got := Sum.Of(1<<63, 1<<63); got != math.MaxUint64 {
		t.Errorf("2^63 twice are %d", got)
	}
}

// TestLimits: the soft limit is C tor's: the greatest of 95 % of the limit, the limit less 500 MB,
// and the limit less the use of three hours.
func TestLimits(t *testing.T) {
	for _, c := range []struct{ max, expected, soft uint64 }{
		{100 * mega, 0, 95 * mega},
		{1000 * giga, 0, 1000*giga - 500*mega},
		{1000 * giga, mega, 1000*giga - 180*mega},
		{1000 * giga, giga, 1000*giga - 500*mega},
		{1000 * giga, math.MaxUint64, 1000*giga - 500*mega},
		{20, 0, 19}, {19, 0, 19}, {1, 0, 1},
		{math.MaxUint64, 0, math.MaxUint64 - 500*mega},
	} {
		m := meter(Limit{Max: c.max}, Count{}, noon)
		m.count.Expected = c.expected
		if got := m.soft(); got != c.soft {
			t.Errorf("%d of %d: %d", c.expected, c.max, got)
		}
		if s := m.Add(noon, time.Second, c.soft-1, 0); s != Awake {
			t.Errorf("%d: a byte below the soft limit the relay is %v", c.max, s)
		}
		soft := Soft
		if c.soft == c.max {
			soft = Dormant
		}
		if s := m.Add(noon, time.Second, 1, 0); s != soft {
			t.Errorf("%d: at the soft limit the relay is %v", c.max, s)
		}
		m.Add(noon, time.Second, c.max-c.soft, 0)
		if s := m.State(noon); s != Dormant {
			t.Errorf("%d: at the limit the relay is %v", c.max, s)
		}
		// The limit is for an interval.
		if s := m.Add(m.Interval().End.Add(-time.Second), time.Second, 0, 0); s != Dormant {
			t.Errorf("%d: a second before the end the relay is %v", c.max, s)
		}
		if s := m.State(m.Interval().End); s != Awake || m.Used() != 0 {
			t.Errorf("%d: in the next interval the relay is %v, of which %d are used", c.max, s, m.Used())
		}
	}
}

// TestLimitChanges: a new limit holds at once, below what is used too, and also wakes.
func TestLimitChanges(t *testing.T) {
	m := meter(Limit{Max: 100 * mega}, Count{}, noon)
	m.Add(noon, time.Second, 60*mega, 50*mega)
	for _, c := range []struct {
		l    Limit
		want State
	}{
		{Limit{Max: 50 * mega}, Dormant}, {Limit{Max: 61 * mega}, Soft}, {Limit{Max: 100 * mega}, Awake},
		{Limit{Max: 100 * mega, Rule: Sum}, Dormant}, {Limit{Max: 60 * mega, Rule: Out}, Awake},
	} {
		c.l.Periods = month
		m.Set(c.l, noon)
		if s := m.State(noon); s != c.want {
			t.Errorf("%v: %v", c.l, s)
		}
	}
}

// TestWake: after an interval that showed its use, a relay wakes at a time that is the same
// after a restart, early enough to use its bytes up, and another one for another relay.
func TestWake(t *testing.T) {
	start, end := month.At(noon).Start, month.At(noon).End
	l := Limit{Max: 100 * giga, Periods: month, Seed: []byte("one")}
	m := NewMeter(l, Count{}, start)
	if !m.Wake().Equal(start) || m.State(start) != Awake {
		t.Errorf("without a measure the relay wakes at %v", m.Wake())
	}
	for now := start; now.Before(start.Add(60 * time.Minute)); now = now.Add(time.Second) {
		m.Add(now, time.Second, 20*mega, 10*mega) // 1200 MB a minute: 86 minutes
	}
	if s := m.State(end); s != Dormant && !m.Wake().Equal(end) {
		t.Errorf("the relay is %v, and wakes at %v", s, m.Wake())
	}
	if want := uint64(1200 * mega); m.Count().Expected != want {
		t.Errorf("%d bytes a minute are expected, not %d", m.Count().Expected, want)
	}
	iv, wake := m.Interval(), m.Wake()
	need := time.Duration(l.Max/m.Count().Expected) * time.Minute
	if wake.Before(iv.Start) || wake.After(iv.End.Add(-need)) {
		t.Errorf("the relay wakes at %v of %v", wake, iv)
	}
	again := NewMeter(l, m.Count(), end.Add(time.Hour))
	if !again.Wake().Equal(wake) {
		t.Errorf("after a restart it wakes at %v, not %v", again.Wake(), wake)
	}
	if s := again.State(wake.Add(-time.Second)); s != Dormant {
		t.Errorf("before it wakes, the relay is %v", s)
	}
	if s := again.Add(wake, 0, 0, 0); s != Awake {
		t.Errorf("when it wakes, the relay is %v", s)
	}
	// A clock that is set a little makes nobody sleep again.
	if s := again.Add(wake.Add(-time.Minute), 0, 0, 0); s != Awake {
		t.Errorf("after the clock was set, the relay is %v", s)
	}
	seen := map[time.Time]bool{}
	for i := range 100 {
		l.Seed = []byte{byte(i)}
		o := NewMeter(l, Count{}, start)
		o.count = m.count
		w := o.wake(iv)
		if w.Before(iv.Start) || w.After(iv.End.Add(-need)) {
			t.Errorf("relay %d wakes at %v", i, w)
		}
		seen[w] = true
	}
	if len(seen) < 95 {
		t.Errorf("100 relays wake at %d times", len(seen))
	}
}

// TestExpect: a relay whose time of service was too short expects nothing; what it used after
// the soft limit, and what is more than its rate, do not count.
func TestExpect(t *testing.T) {
	c := Count{Start: month.At(noon).Start, Read: 60 * giga, Written: 40 * giga, Active: time.Hour}
	for i, x := range []struct {
		change func(*Count)
		l      Limit
		want   uint64
	}{
		{nil, Limit{}, giga},
		{nil, Limit{Rule: Sum}, 100 * giga / 60},
		{nil, Limit{Rate: mega}, 60 * mega},
		{nil, Limit{Rate: mega, Rule: Sum}, 120 * mega},
		{nil, Limit{Rate: math.MaxUint64}, giga},
		{func(c *Count) { c.Active = 30*time.Minute - 1 }, Limit{}, 0},
		{func(c *Count) { c.At, c.After = 45*giga, 30*time.Minute }, Limit{}, 45 * giga / 30},
		{func(c *Count) { c.At, c.After = 45*giga, 29*time.Minute }, Limit{}, giga},
	} {
		x.l.Max, x.l.Periods = 1000*giga, month
		c := c
		if x.change != nil {
			x.change(&c)
		}
		m := NewMeter(x.l, c, noon)
		m.State(m.Interval().End)
		if got := m.Count().Expected; got != x.want {
			t.Errorf("%d: %d, not %d", i, got, x.want)
		}
	}
}

// TestWakeOfTinyLimit: a limit that a minute uses up leaves the whole interval to choose from,
// but not its end.
func TestWakeOfTinyLimit(t *testing.T) {
	iv := month.At(noon)
	for i := range 1000 {
		m := meter(Limit{Max: 1, Seed: []byte{byte(i), byte(i >> 8)}}, Count{}, noon)
		m.count.Expected = giga
		if w := m.wake(iv); w.Before(iv.Start) || !w.Before(iv.End) {
			t.Fatalf("it wakes at %v of %v", w, iv)
		}
	}
}

// TestClockSetBack: a clock that goes to the next interval and comes back gives no relay its
// limit twice.
func TestClockSetBack(t *testing.T) {
	m := meter(Limit{Max: 100 * mega}, Count{}, noon)
	m.Add(noon, time.Second, 70*mega, 0)
	later := noon.AddDate(0, 2, 0)
	if s := m.Add(later, time.Second, 20*mega, 0); s != Awake || m.Used() != 20*mega {
		t.Errorf("two months later the relay is %v, and %d are used", s, m.Used())
	}
	if s := m.Add(noon, time.Second, 0, 0); s != Awake || m.Used() != 90*mega {
		t.Errorf("when it is set back, the relay is %v, and %d are used", s, m.Used())
	}
	// Again, to an interval of which nothing was counted.
	if s := m.Add(noon.AddDate(-1, 0, 0), time.Second, 10*mega, 0); s != Dormant || m.Used() != 100*mega {
		t.Errorf("a year before, the relay is %v, and %d are used", s, m.Used())
	}
	if iv := m.Interval(); !iv.Start.Equal(at("2025-11-01 00:00:00", time.UTC)) || !m.Wake().Equal(iv.Start) {
		t.Errorf("the interval is %v, and the relay wakes at %v", iv, m.Wake())
	}
}

// TestClockSetForward: a relay that is dormant wakes when the clock says that its interval is over.
func TestClockSetForward(t *testing.T) {
	m := meter(Limit{Max: mega}, Count{}, noon)
	if s := m.Add(noon, time.Second, mega, 0); s != Dormant {
		t.Fatal(s)
	}
	if s := m.Add(noon.AddDate(10, 0, 0), 10*365*24*time.Hour, 0, 0); s != Awake || m.Count().Active != 0 {
		t.Errorf("ten years later the relay is %v, and served for %v", s, m.Count().Active)
	}
}

// TestScheduleMoves: an interval that begins a little earlier or later keeps its bytes, as in C
// tor; one that is another does not.
func TestScheduleMoves(t *testing.T) {
	for _, c := range []struct {
		to   Schedule
		used uint64
	}{
		{Schedule{unit: monthly, day: 5}, mega}, {Schedule{unit: monthly, day: 1, hour: 5}, mega},
		{Schedule{unit: monthly, day: 20}, mega}, // now it is October's, which goes on
		{Schedule{unit: daily}, 0}, {Schedule{unit: weekly, day: 1}, 0},
	} {
		m := meter(Limit{Max: giga}, Count{}, noon)
		m.Add(noon, time.Second, mega, 0)
		m.Set(Limit{Max: giga, Periods: c.to}, noon)
		if m.Used() != c.used || m.Interval() != c.to.At(noon) {
			t.Errorf("%v: %d are used of %v", c.to, m.Used(), m.Interval())
		}
	}
}

// TestStrangeCounts: a file may say anything; what cannot be is refused, and what can be never
// gives a relay more than its limit.
func TestStrangeCounts(t *testing.T) {
	iv := month.At(noon)
	good := Count{Start: iv.Start, Wake: iv.Start, Woken: true, Read: 1, Written: 2, Active: time.Hour}
	for name, c := range map[string]struct {
		change func(*Count)
		sane   bool
		state  State
	}{
		"ordinary":          {func(*Count) {}, true, Awake},
		"empty":             {func(c *Count) { *c = Count{} }, true, Awake},
		"2^63":              {func(c *Count) { c.Read, c.Written = 1<<63, 1<<63 }, true, Dormant},
		"a year to come":    {func(c *Count) { c.Start, c.Read = iv.Start.AddDate(1, 0, 0), giga }, true, Dormant},
		"a year ago":        {func(c *Count) { c.Start, c.Read, c.Active = iv.Start.AddDate(-1, 0, 0), giga, 0 }, true, Awake},
		"wakes too late":    {func(c *Count) { c.Woken, c.Wake = false, iv.End }, true, Dormant}, // until the end
		"no interval":       {func(c *Count) { c.Start = time.Time{} }, false, 0},
		"year 9999":         {func(c *Count) { c.Start = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }, false, 0},
		"year 1, no wake":   {func(c *Count) { c.Wake = time.Time{} }, false, 0},
		"never served":      {func(c *Count) { c.Active = -1 }, false, 0},
		"soft before":       {func(c *Count) { c.After = -1 }, false, 0},
		"soft after":        {func(c *Count) { c.After = c.Active + 1 }, false, 0},
		"past of year 9999": {func(c *Count) { c.Before = &Past{Start: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} }, false, 0},
	} {
		k := good
		c.change(&k)
		if k.Sane(noon) != c.sane {
			t.Errorf("%s: sane is %v", name, !c.sane)
		}
		if !c.sane {
			continue
		}
		m := meter(Limit{Max: giga, Rule: Sum}, k, noon)
		if s := m.Add(noon, time.Second, 0, 0); s != c.state {
			t.Errorf("%s: the relay is %v", name, s)
		}
		if iv := m.Interval(); noon.Before(iv.Start) || !noon.Before(iv.End) {
			t.Errorf("%s: the interval is %v", name, iv)
		}
	}
}

// TestNeverMoreThanTheLimit: whatever the clock does between two intervals, the relay, which uses
// nothing while it is dormant, uses no more in an interval than its limit and what moves between
// two looks at the count. A restart changes nothing.
func TestNeverMoreThanTheLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const burst = 50
	for range 1000 {
		l := Limit{Max: 1 + rng.Uint64N(1000), Rule: Rule(rng.IntN(4)), Periods: hourly{noon}}
		m := meter(l, Count{}, noon)
		now, newest, used := noon, noon, map[time.Time][2]uint64{}
		for range 300 {
			step := time.Duration(rng.IntN(20)) * time.Minute
			if rng.IntN(3) == 0 {
				step = -step // the clock is set, and perhaps to the interval before
			}
			if to := now.Add(step); !to.Before(newest.Add(-time.Hour)) {
				now = to
			}
			if rng.IntN(20) == 0 {
				text, err := json.Marshal(m.Count())
				if err != nil {
					t.Fatal(err)
				}
				var c Count
				if err := json.Unmarshal(text, &c); err != nil || !c.Sane(now) {
					t.Fatalf("%s: %v", text, err)
				}
				m = meter(l, c, now)
			}
			state := m.State(now)
			if full := m.Used() >= l.Max; full && state != Dormant {
				t.Fatalf("the relay is %v with %d of %d", state, m.Used(), l.Max)
			}
			start := l.Periods.At(now).Start
			if start.After(newest) {
				newest = start
			}
			if state == Dormant {
				continue
			}
			in, out := rng.Uint64N(burst), rng.Uint64N(burst)
			m.Add(now, time.Second, in, out)
			u := used[start]
			used[start] = [2]uint64{u[0] + in, u[1] + out}
			if got := l.Rule.Of(u[0]+in, u[1]+out); got > l.Max+2*burst || got > m.Used() {
				t.Fatalf("%d of %d were used, and %d were counted", got, l.Max, m.Used())
			}
		}
	}
}

// hourly is intervals of an hour, counted from a time.
type hourly struct{ from time.Time }

func (h hourly) At(now time.Time) Interval {
	n := now.Sub(h.from) / time.Hour
	if now.Before(h.from.Add(n * time.Hour)) { // before from, Go divides towards 0
		n--
	}
	return Interval{h.from.Add(n * time.Hour), h.from.Add((n + 1) * time.Hour)}
}
