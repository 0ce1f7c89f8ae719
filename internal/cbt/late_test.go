package cbt

import (
	"testing"
	"time"
)

// learned returns an estimator that knows times of about a second.
func learned() *Estimator {
	e := New(DefaultParams())
	now := time.Unix(1e9, 0)
	for i := range 100 {
		e.HopBuilt(3, 3, now.Add(-time.Second-time.Duration(i)*time.Millisecond), now, false)
	}
	return e
}

// TestLateAtHop: whether a hop came too late does not depend on how many follow, and the fourth hop is always in time.
func TestLateAtHop(t *testing.T) {
	e := learned()
	usage, _ := e.Timeouts(3)
	for built := 1; built <= 5; built++ {
		if e.LateAtHop(built, usage) || e.LateAtHop(built, usage+1) != (built <= 3) {
			t.Errorf("%d hops", built)
		}
	}
}

// TestLateBetween: while nothing arrives, more than three hops have the time of four, and a second more.
func TestLateBetween(t *testing.T) {
	e := learned()
	usage, _ := e.Timeouts(3)
	four := time.Duration(float64(usage)*10/6) + time.Second
	for _, c := range []struct {
		built, hops int
		after       time.Duration // 0: never
	}{{0, 3, usage}, {2, 3, usage}, {0, 4, four}, {3, 4, four}, {3, 5, four}, {4, 5, 0}, {0, 2, 0}, {0, 1, 0}} {
		if e.LateBetween(c.built, c.hops, c.after-time.Millisecond) || e.LateBetween(c.built, c.hops, max(c.after, time.Hour)+time.Millisecond) != (c.after > 0) ||
			c.after > 0 && !(e.LateBetween(c.built, c.hops, c.after) && e.LateBetween(c.built, c.hops, c.after+time.Millisecond)) {
			t.Errorf("%d of %d hops", c.built, c.hops)
		}
	}
}

// TestNeverLate: where no timeout is known, or none is to be learned, circuits are given up, and never late.
func TestNeverLate(t *testing.T) {
	e := New(DefaultParams())
	if e.LateBetween(2, 3, time.Hour) || e.GiveUp(3) != time.Minute || e.GiveUp(4) != 101*time.Second || e.GiveUp(5) != 101*time.Second {
		t.Errorf("%v, %v, %v", e.GiveUp(3), e.GiveUp(4), e.GiveUp(5))
	}
	e = learned()
	if got := e.GiveUp(4); got != time.Minute {
		t.Errorf("four hops are measured for %v", got)
	}
	p := DefaultParams()
	p.Disabled = true
	e.SetParams(p)
	if e.LateAtHop(3, time.Hour) || e.LateBetween(2, 3, time.Hour) {
		t.Error("late, and nothing is learned")
	}
}
