package pace

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	now := time.Unix(1e9, 0)
	var p Pace
	limit := Limit{Rate: 2, Burst: 3}
	take := func(want int) {
		t.Helper()
		n := 0
		for p.Allow(now, limit) {
			n++
		}
		if n != want {
			t.Errorf("%d events, not %d", n, want)
		}
	}
	take(3)
	take(0)
	now = now.Add(time.Second)
	take(2)
	now = now.Add(time.Hour)
	take(3)
	// A new limit applies from the moment when it is set.
	now = now.Add(time.Second)
	limit = Limit{Rate: 10, Burst: 100}
	take(2)
	now = now.Add(time.Minute)
	take(100)
	limit.Burst = 1
	now = now.Add(time.Minute)
	take(1)
}
