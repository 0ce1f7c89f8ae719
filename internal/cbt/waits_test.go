package cbt

import (
	"testing"
	"time"
)

// TestCutoffs: C tor's multiples of the learned timeout, and of the initial one while nothing is learned, or never is.
func TestCutoffs(t *testing.T) {
	for _, disabled := range []bool{false, true} {
		p := DefaultParams()
		p.Disabled = disabled
		e := New(p)
		for w, want := range map[Wait]time.Duration{
			IntroEstablished: 91 * time.Second, RendezvousReached: 101 * time.Second, Extended: 41 * time.Second,
			RendezvousEstablished: 60 * time.Second, IntroductionTaken: 141 * time.Second, ServiceCame: 181 * time.Second,
		} {
			if got := e.Cutoff(w); got != want {
				t.Errorf("wait %d: %v before anything is learned, not %v", w, got, want)
			}
		}
		if e.Measures() {
			t.Error("it measures before it has learned")
		}
	}
	for w := IntroEstablished; w <= ServiceCame; w++ {
		if built := w == IntroEstablished || w == RendezvousReached || w == Extended; w.Builds() != built {
			t.Errorf("wait %d builds: %v", w, w.Builds())
		}
	}
	e := New(DefaultParams())
	for at := time.Unix(0, 0); e.history.n < e.p.MinCircuits; at = at.Add(time.Second) {
		if e.Measures() {
			t.Errorf("it measures with %d times", e.history.n)
		}
		e.history.add(500)
	}
	if !e.Measures() {
		t.Error("it has learned, and does not measure")
	}
	e.usage = 1200 * time.Millisecond
	for w, want := range map[Wait]time.Duration{
		IntroEstablished: 2800 * time.Millisecond, RendezvousReached: 3 * time.Second, Extended: 41 * time.Second,
		RendezvousEstablished: 1200 * time.Millisecond, IntroductionTaken: 3800 * time.Millisecond, ServiceCame: 4600 * time.Millisecond,
	} {
		if got := e.Cutoff(w); got != want {
			t.Errorf("wait %d: %v, not %v", w, got, want)
		}
	}
}
