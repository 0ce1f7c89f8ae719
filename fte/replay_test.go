package fte

import (
	"testing"
	"time"
	"unsafe"
)

// setBack returns a reading of the clock as it is after the clock was set back by d: the
// monotonic part stays.
func setBack(now time.Time, d time.Duration) time.Time {
	// The first word of a Time with a monotonic reading has the seconds from bit 30 on.
	*(*uint64)(unsafe.Pointer(&now)) -= uint64(d/time.Second) << 30
	return now
}

// TestReplayCacheClockSetBack: a machine starts with a clock that is hours fast, as after a
// change of its zone, and sets it right a minute later. Clients with right clocks are let in;
// what was recorded before the start is not.
func TestReplayCacheClockSetBack(t *testing.T) {
	start := time.Now()
	r := newReplayCache(10, start)
	now := setBack(start.Add(time.Minute), 3*time.Hour)
	if d := start.Sub(now.Round(0)); d < 2*time.Hour || now.Sub(start) != time.Minute {
		t.Fatalf("the clock was not set back: %v, %v", d, now.Sub(start))
	}
	if !r.fresh(helloID{1}, now.Round(0), now) {
		t.Error("a client with a right clock is refused")
	}
	if r.fresh(helloID{2}, now.Round(0).Add(-time.Minute-restartSlack-time.Second), now) {
		t.Error("a hello from well before the start is accepted")
	}
}
