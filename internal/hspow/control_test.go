package hspow

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// rules is what hspow-spec says of one period of 300 seconds, from what happened in it.
func rules(old uint32, efforts, lost []uint32, served int, hadQueue bool, waits bool, top uint32, few bool) uint32 {
	grow, shrink := false, false
	var trimmed uint32
	for _, e := range lost {
		trimmed = max(trimmed, e)
	}
	if trimmed > old {
		grow = true
	} else if hadQueue {
		grow = waits && top >= old
	} else {
		shrink = few
	}
	switch {
	case shrink:
		return uint32(math.Floor(float64(old) * 2 / 3))
	case grow:
		var sum float64
		for _, e := range efforts {
			sum += float64(e)
		}
		mean := 0.0
		if served > 0 {
			mean = math.Floor(sum / float64(served))
		}
		return uint32(min(max(float64(old)+1, mean), MaxSuggested))
	}
	return old
}

// TestControl: whatever happens, the suggested effort follows the rules, and changes each
// 300 seconds and not in between.
func TestControl(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	effort := func() uint32 { return uint32(math.Exp(r.Float64()*23)) - 1 }
	now := time.Unix(1e9, 0)
	var c Control
	c.Update(now, -1, true)
	grew, shrank, stayed := 0, 0, 0
	for range 20000 {
		old := c.Suggested()
		var efforts, lost []uint32
		served, hadQueue := 0, false
		for range r.IntN(6) {
			e := effort()
			switch r.IntN(4) {
			case 0, 1:
				efforts = append(efforts, e)
				c.Came(e)
			case 2:
				served++
				q := r.IntN(3) == 0
				hadQueue = hadQueue || q
				c.Served(q)
			case 3:
				if r.IntN(2) == 0 {
					e = old // no more than was suggested
				}
				lost = append(lost, e)
				c.Lost(e)
			}
			if c.Update(now.Add(time.Duration(r.Int64N(int64(ControlEvery)))), 1<<31, false); c.Suggested() != old {
				t.Fatal("it changes before its time")
			}
		}
		waits, top, few := r.IntN(3) > 0, effort(), r.IntN(2) == 0
		given := int64(top)
		if !waits {
			given = -1
		}
		now = now.Add(ControlEvery)
		c.Update(now, given, few)
		want := rules(old, efforts, lost, served, hadQueue, waits, top, few)
		switch got := c.Suggested(); {
		case got != want:
			t.Fatalf("from %d to %d, and the rules say %d: came %v, lost %v, served %d, queue %v, top %d (%v), few %v", old, got, want, efforts, lost, served, hadQueue, top, waits, few)
		case got > old:
			grew++
		case got < old:
			shrank++
		default:
			stayed++
		}
	}
	if grew < 1000 || shrank < 1000 || stayed < 1000 {
		t.Errorf("it grew %d times, shrank %d times and stayed %d times", grew, shrank, stayed)
	}
}

// A service at which nobody waits any more asks for no work soon.
func TestControlEnds(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := Control{suggested: MaxSuggested}
	c.Update(now, -1, true)
	n := 0
	for ; c.Suggested() > 0; n++ {
		now = now.Add(ControlEvery)
		c.Update(now, -1, true)
	}
	if n > 24 {
		t.Errorf("after %d periods", n)
	}
}

// A clock that was set back by a day does not stop it for a day.
func TestControlClock(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := Control{suggested: 100}
	c.Update(now, -1, true)
	now = now.Add(-24 * time.Hour)
	c.Update(now, -1, true)
	if c.Update(now.Add(ControlEvery), -1, true); c.Suggested() != 66 {
		t.Errorf("%d", c.Suggested())
	}
}

// TestControlEvery: networks for tests need not wait for minutes.
func TestControlEvery(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := Control{Every: time.Second}
	for i := range uint32(3) {
		c.Update(now, 1000, false)
		c.Served(true)
		if now = now.Add(time.Second - 1); c.Suggested() != i {
			t.Errorf("%d after %d changes", c.Suggested(), i)
		}
		c.Update(now, 1000, false)
		c.Served(true)
		now = now.Add(1)
	}
}

// TestControlAbove: the suggested effort is always worth something, or zero.
func TestControlAbove(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := Control{suggested: 10}
	c.Update(now, -1, true)
	for _, x := range []struct {
		floor uint32
		waits bool // clients have to
		want  uint32
	}{
		{9, true, 11}, // one more than 10
		{50, true, 52},
		{50, false, 0}, // two thirds of it are worth nothing
		{50, false, 0},
		{50, true, 51},
		{0, true, 52}, // another seed
		{0, false, 34},
		{MaxSuggested - 1, true, MaxSuggested},
		{1 << 20, true, MaxSuggested},
	} {
		c.Above(x.floor)
		if got := c.Suggested(); got != 0 && got <= x.floor && got < MaxSuggested {
			t.Errorf("%+v: %d", x, got)
		}
		top := int64(-1)
		if x.waits {
			top = 1 << 31
			c.Served(true)
		}
		now = now.Add(ControlEvery)
		if c.Update(now, top, !x.waits); c.Suggested() != x.want {
			t.Errorf("%+v: %d", x, c.Suggested())
		}
	}
}

// TestControlExtremes: nothing that clients can bring about, also at a service that could
// answer none of them, leads out of the bounds.
func TestControlExtremes(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, old := range []uint32{0, 1, MaxSuggested - 1, MaxSuggested} {
		for _, lost := range []uint32{0, 1, math.MaxUint32} {
			for _, came := range []int{0, 1, 1000} {
				for _, served := range []int{0, 1} {
					for _, top := range []int64{-1, 0, math.MaxUint32} {
						for _, floor := range []uint32{0, math.MaxUint32} {
							c := Control{suggested: old}
							c.Update(now, top, false)
							c.Above(floor)
							for range came {
								c.Came(math.MaxUint32)
							}
							for range served {
								c.Served(true)
							}
							c.Lost(lost)
							c.Update(now, top, false) // no time has passed
							if before := c.Suggested(); before != old && floor == 0 {
								t.Fatalf("%d became %d at once", old, before)
							}
							c.Update(now.Add(ControlEvery), top, top < 0)
							c.Update(now.Add(ControlEvery), top, top < 0)
							if got := c.Suggested(); got > MaxSuggested {
								t.Errorf("from %d, %d lost, %d came, %d served, top %d, floor %d: %d", old, lost, came, served, top, floor, got)
							}
						}
					}
				}
			}
		}
	}
}
