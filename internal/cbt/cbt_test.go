package cbt

import (
	"math/rand/v2"
	"testing"
	"time"
)

var epoch = time.Unix(1_700_000_000, 0)

// fill builds circuits of three hops that take the given times.
func fill(e *Estimator, times ...uint32) {
	for _, t := range times {
		start := epoch
		e.HopBuilt(3, 3, start, start.Add(time.Duration(t)*time.Millisecond), false)
	}
}

func few(p Params) Params { p.MinCircuits, p.NumModes = 1, 2; return p }

func TestTimeoutsAndScaling(t *testing.T) {
	e := New(few(DefaultParams()))
	if u, c := e.Timeouts(3); u != time.Minute || c != time.Minute || !e.Learning() {
		t.Fatalf("at first: %v %v", u, c)
	}
	fill(e, artiTimes...)
	u, c := e.Timeouts(3)
	if u.Microseconds() != 493169 || c != time.Minute || e.Learning() {
		t.Fatalf("learned %v, %v", u, c)
	}
	for hops, actions := range map[int]int{1: 1, 2: 3, 3: 6, 4: 10, 6: 21} {
		got, _ := e.Timeouts(hops)
		if want := u * time.Duration(actions) / 6; (got - want).Abs() > time.Microsecond {
			t.Errorf("%d hops: %v, not %v", hops, got, want)
		}
	}
	if one, _ := e.Timeouts(-1); one <= 0 {
		t.Error("a circuit of no hops has no time at all")
	}
}

func TestCaps(t *testing.T) {
	e := New(few(DefaultParams()))
	fill(e, 1, 1, 1)
	if u, _ := e.Timeouts(3); u != 10*time.Millisecond {
		t.Fatalf("usage timeout %v is under cbtmintimeout", u)
	}
	// A wide spread: the quantile is beyond the longest time ever seen.
	p := few(DefaultParams())
	p.NumModes, p.InitialTimeout, p.Quantile = 1, time.Second, 0.95
	e = New(p)
	fill(e, 10, 10, 10, 1900, 1900)
	if u, c := e.Timeouts(3); u != 1900*time.Millisecond || c != 3800*time.Millisecond {
		t.Fatalf("usage %v close %v, not capped at the longest time and twice that", u, c)
	}
}

func TestOnlyTheThirdHopCounts(t *testing.T) {
	e := New(DefaultParams())
	for hop := 1; hop <= 4; hop++ {
		e.HopBuilt(hop, 4, epoch, epoch.Add(time.Second), false)
		if want := min(1, hop/3); e.Status().Observations != want {
			t.Fatalf("hop %d: %d observations", hop, e.Status().Observations)
		}
	}
	e.HopBuilt(2, 2, epoch, epoch.Add(time.Second), false)
	if e.Status().Observations != 1 {
		t.Fatal("a circuit of two hops was recorded")
	}
}

func TestLateCircuitIsMeasuredNotUsed(t *testing.T) {
	e := New(few(DefaultParams()))
	fill(e, artiTimes...)
	n := e.Status().Observations
	if e.HopBuilt(3, 3, epoch, epoch.Add(5*time.Second), false) {
		t.Fatal("a circuit past its usage timeout is usable")
	}
	if e.HopBuilt(3, 3, epoch, epoch.Add(100*time.Millisecond), true) {
		t.Fatal("a circuit that was declared late is usable")
	}
	if e.Status().Observations != n+2 {
		t.Fatal("late circuits must be measured")
	}
	e.HopBuilt(3, 3, epoch, epoch.Add(time.Hour), false)
	e.HopBuilt(3, 3, epoch, epoch.Add(-time.Second), false)
	if e.Status().Observations != n+2 {
		t.Fatal("a clock jump was taken for a measurement")
	}
}

func TestResetAndDoubling(t *testing.T) {
	e := New(few(DefaultParams()))
	fill(e, artiTimes...)
	for range 100 {
		e.Timeout(0, time.Time{})
	}
	if e.Status().Timeouts != 0 {
		t.Fatal("a circuit that never built a hop says nothing about timeouts")
	}
	for i := range 18 {
		if reset := e.Timeout(1, time.Time{}); reset != (i == 17) {
			t.Fatalf("timeout %d: reset %v", i+1, reset)
		}
	}
	if u, c := e.Timeouts(3); u != time.Minute || c != time.Minute || e.Status().Observations != 0 {
		t.Fatalf("after the reset: %v %v", u, c)
	}
	for range 18 {
		e.Timeout(2, time.Time{})
	}
	if u, _ := e.Timeouts(3); u != 2*time.Minute {
		t.Fatalf("not doubled: %v", u)
	}
	for range 18 * 50 {
		e.Timeout(2, time.Time{})
	}
	if u, _ := e.Timeouts(3); u != maxTimeout {
		t.Fatalf("doubled without bound: %v", u)
	}
}

func TestSuccessesKeepTheHistory(t *testing.T) {
	e := New(DefaultParams())
	for range 500 {
		for range 17 {
			if e.Timeout(1, time.Time{}) {
				t.Fatal("reset with successes among the recent circuits")
			}
		}
		fill(e, 100, 100, 100)
	}
}

func TestDisabled(t *testing.T) {
	e := New(few(DefaultParams()))
	fill(e, artiTimes...)
	p := few(DefaultParams())
	p.Disabled = true
	e.SetParams(p)
	if u, _ := e.Timeouts(3); u != time.Minute || e.Status().Observations != 0 || e.Learning() {
		t.Fatal("cbtdisabled must discard the history")
	}
	fill(e, artiTimes...)
	if e.Timeout(1, time.Time{}) || e.Status().Observations != 0 {
		t.Fatal("learning while disabled")
	}
}

func TestLiveness(t *testing.T) {
	e := New(DefaultParams())
	e.Traffic(epoch)
	e.Abandoned(epoch.Add(-time.Second)) // it lived when a cell came
	if !e.Live() {
		t.Fatal("dead though a cell was received during the circuit's life")
	}
	e.Abandoned(epoch.Add(time.Second))
	if e.Live() {
		t.Fatal("live though a circuit lived and died in silence")
	}
	e.Traffic(epoch.Add(time.Minute))
	if !e.Live() {
		t.Fatal("dead after traffic")
	}
}

func TestWantTest(t *testing.T) {
	e := New(DefaultParams())
	if !e.WantTest(epoch, 0) || e.WantTest(epoch, 10) {
		t.Fatal("a fresh estimator wants tests, at most cbtmaxopencircs at once")
	}
	e.Launched(epoch)
	if e.WantTest(epoch.Add(9*time.Second), 0) || !e.WantTest(epoch.Add(10*time.Second), 0) {
		t.Fatal("cbttestfreq is not obeyed")
	}
	for range 100 {
		fill(e, 100)
	}
	if e.WantTest(epoch.Add(time.Hour), 0) {
		t.Fatal("tests after enough times were learned")
	}
	p := DefaultParams()
	p.MinCircuits = 5000
	if New(p).Learning() {
		t.Fatal("cbtmincircs over the history's length disables learning")
	}
}

func TestSetParamsFollowsTheInitialTimeout(t *testing.T) {
	e := New(DefaultParams())
	p := DefaultParams()
	p.InitialTimeout = 30 * time.Second
	p.RecentCount = 5
	e.SetParams(p)
	if u, c := e.Timeouts(3); u != 30*time.Second || c != u || len(e.recent.timedOut) != 5 {
		t.Fatalf("%v %v", u, c)
	}
}

func TestParamsFrom(t *testing.T) {
	p := ParamsFrom(func(name string, def, lo, hi int32) int32 {
		switch name {
		case "cbtquantile":
			return 95
		case "cbtclosequantile":
			return 50
		case "cbtmintimeout":
			return 5000
		case "cbtinitialtimeout":
			return 10
		}
		if def < lo || def > hi {
			t.Errorf("%s: default %d is not in %d..%d", name, def, lo, hi)
		}
		return def
	})
	if p.CloseQuantile != 0.95 || p.InitialTimeout != 5*time.Second {
		t.Fatalf("lower bounds by other parameters are not kept: %+v", p)
	}
}

func TestStateRefusesRubbish(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, s := range []string{
		"", "{", "null{}", `{"version":2,"bins":[]}`, `{"version":1,"bins":[],"x":1}`,
		`{"version":1,"bins":[[6,1]]}`, `{"version":1,"bins":[[5,0]]}`, `{"version":1,"bins":[[5,1001]]}`,
		`{"version":1,"bins":[[15,1],[5,1]]}`, `{"version":1,"bins":[[5,1],[5,1]]}`, `{"version":1,"bins":[[4294967295,1]]}`,
		`{"version":1,"bins":[]} {}`,
	} {
		if _, err := Decode([]byte(s), DefaultParams(), rnd); err == nil {
			t.Errorf("accepted %q", s)
		}
	}
}

func FuzzDecode(f *testing.F) {
	e := New(DefaultParams())
	fill(e, artiTimes...)
	f.Add(e.Encode())
	f.Add([]byte(`{"version":1,"bins":[[5,1000]]}`))
	f.Add([]byte(`{"version":1,"bins":[[2147483645,1000]]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Decode(b, few(DefaultParams()), rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			return
		}
		if u, c := e.Timeouts(3); u <= 0 || c < u {
			t.Fatalf("usage %v close %v", u, c)
		}
		e2, err := Decode(e.Encode(), DefaultParams(), rand.New(rand.NewPCG(1, 1)))
		if err != nil || e2.Status().Observations != e.Status().Observations {
			t.Fatalf("what was encoded is not what is read: %v", err)
		}
	})
}

func BenchmarkHopBuilt(b *testing.B) {
	e := New(DefaultParams())
	rnd := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		e.HopBuilt(3, 3, epoch, epoch.Add(time.Duration(100+rnd.IntN(2000))*time.Millisecond), false)
	}
}

// TestFirstHopTimeouts: first hops that are asked and do not answer count, if others answer
// meanwhile: else a timeout that is too short for the first hop alone would stay for ever. Those
// that nobody asked, or that are silent with all others, say nothing.
func TestFirstHopTimeouts(t *testing.T) {
	learned := func() *Estimator {
		e := New(few(DefaultParams()))
		fill(e, artiTimes...)
		return e
	}
	asked := epoch.Add(time.Hour)
	for name, c := range map[string]struct {
		asked, heard time.Time
		counts       bool
	}{
		"no link was open":        {time.Time{}, asked, false},
		"the network was silent":  {asked, asked, false},
		"the network was working": {asked, asked.Add(time.Second), true},
	} {
		e := learned()
		e.Traffic(c.heard)
		reset := false
		for range DefaultParams().MaxTimeouts {
			reset = e.Timeout(0, c.asked) || reset
		}
		if u, _ := e.Timeouts(3); reset != c.counts || (u == time.Minute) != c.counts {
			t.Errorf("%s: reset %v, timeout %v", name, reset, u)
		}
	}
}

// TestAbandonedIsNoTime: circuits that are abandoned have no time, so however many there are,
// they do not fill the history, and the timeout goes on to follow the network.
func TestAbandonedIsNoTime(t *testing.T) {
	e := New(few(DefaultParams()))
	fill(e, artiTimes...)
	n := e.Status().Observations
	short, _ := e.Timeouts(3)
	for range 2 * historyLen {
		e.Abandoned(epoch)
		e.HopBuilt(3, 3, epoch, epoch.Add(3*time.Minute), true) // it was complete when nobody waited
	}
	if got := e.Status().Observations; got != n {
		t.Fatalf("%d observations, of %d that were made", got, n)
	}
	for range historyLen {
		e.HopBuilt(3, 3, epoch, epoch.Add(5*time.Second), true)
	}
	if u, _ := e.Timeouts(3); u < 5*time.Second || short > time.Second {
		t.Errorf("the timeout was %v, and is %v on a network that takes 5 s", short, u)
	}
}

// TestStalled: a link is in doubt after the initial timeout at the earliest, however short the
// learned one is, and after the learned one if that is longer.
func TestStalled(t *testing.T) {
	p := few(DefaultParams())
	e := New(p)
	fill(e, artiTimes...)
	if got := e.Stalled(); got != p.InitialTimeout {
		t.Errorf("%v on a fast network", got)
	}
	p.InitialTimeout = 10 * time.Millisecond
	e.SetParams(p)
	if _, closing := e.Timeouts(3); e.Stalled() != closing || closing <= p.InitialTimeout {
		t.Errorf("%v, not %v", e.Stalled(), closing)
	}
}

// TestForget: what was learned is gone, and the timeouts are those of the start.
func TestForget(t *testing.T) {
	p := few(DefaultParams())
	e := New(p)
	start := e.Status()
	fill(e, 100, 200, 300)
	if s := e.Status(); s.Observations == 0 || s.Usage == start.Usage {
		t.Fatalf("it learned nothing: %+v", s)
	}
	e.recent.add(true)
	e.Forget()
	if s := e.Status(); s != start {
		t.Errorf("%+v, want %+v", s, start)
	}
	if e.computed {
		t.Error("the timeouts count as learned")
	}
}
