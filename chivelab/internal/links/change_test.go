package links

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPipeChange: a change is the same as a step at that time, and steps to come are forgotten.
func TestPipeChange(t *testing.T) {
	before, after := Rules{Rate: 80_000, Delay: 5 * ms}, Rules{Rate: 8_000_000, Delay: ms, Loss: .5}
	stepped, err := NewPipe(before, []Step{{35 * ms, after}}, 7)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := NewPipe(before, []Step{{50 * ms, Rules{Loss: 1}}}, 7)
	if err != nil {
		t.Fatal(err)
	}
	var a, b []Outcome
	for i := range 100 {
		now := time.Duration(i) * ms
		if now == 35*ms {
			out, err := changed.Change(now, after)
			if err != nil {
				t.Fatal(err)
			}
			b = append(b, out...)
		}
		a, b = append(a, stepped.Arrive(now, uint64(i), 100)...), append(b, changed.Arrive(now, uint64(i), 100)...)
	}
	if len(a) < 50 || len(a) != len(b) {
		t.Fatalf("%d and %d outcomes", len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			t.Errorf("outcome %d: %+v by a step, %+v by a change", i, a[i], b[i])
		}
	}
	if _, err := changed.Change(time.Second, Rules{Loss: 2}); err == nil {
		t.Error("rules that cannot be")
	}
}

// TestLineChange: a line that is idle takes other rules, and a packet in its queue leaves by them.
func TestLineChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []time.Duration
		began := time.Now()
		l, err := newLine(Rules{Delay: 50 * ms}, nil, 1, func([]byte) { got = append(got, time.Since(began)) }, newTimers)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		time.Sleep(100 * ms)
		if err := l.Change(Rules{Delay: ms, Rate: 8000}); err != nil { // 100 bytes take 100 ms
			t.Fatal(err)
		}
		l.Send(make([]byte, 100))
		l.Send(make([]byte, 100))
		time.Sleep(150 * ms) // the second is under way from 200 to 300 ms
		if err := l.Change(Rules{Loss: 1}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		l.Send(make([]byte, 100))
		time.Sleep(time.Second)
		synctest.Wait()
		if len(got) != 2 || got[0] != 201*ms || got[1] != 301*ms || l.Count(Lost) != 1 {
			t.Errorf("packets came at %v, %d were lost", got, l.Count(Lost))
		}
		if err := l.Change(Rules{MTU: 1}); err == nil {
			t.Error("rules that cannot be")
		}
	})
}
