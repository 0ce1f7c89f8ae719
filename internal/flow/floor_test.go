package flow

import (
	"testing"
	"time"
)

// TestSlowStartEndsAboveTheFloor: the window is never below its minimum, whatever
// thresholds the consensus has. With less than what one SENDME acknowledges, nothing could
// ever be sent again.
func TestSlowStartEndsAboveTheFloor(t *testing.T) {
	p := DefaultParams()
	p.Thresholds[PathExit].Gamma = 1
	s := NewVegasSender(&p, PathExit, p.SendmeInc)
	now := epoch
	// The path is idle first, and has a long queue then.
	for _, rtt := range []time.Duration{time.Millisecond, time.Second} {
		for range p.SendmeInc {
			s.Sent(now)
		}
		now = now.Add(rtt)
		if err := s.Sendme(now, false); err != nil {
			t.Fatal(err)
		}
	}
	if st := s.State(); st.SlowStart || st.Cwnd < p.CwndMin || s.Available() < p.SendmeInc {
		t.Errorf("%+v, %d may be sent", st, s.Available())
	}
}
