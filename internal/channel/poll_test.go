package channel

import "testing"

// TestPoller: a poller asks only in the midst of bulk; each time in vain it
// leaves out twice as many chances, up to a bound, and starts anew once
// something came.
func TestPoller(t *testing.T) {
	var p poller
	asked := 0
	never := func() bool { asked++; return false }
	chance := func(try func() bool) bool {
		asked = 0
		p.got(bulkBytes - 1)
		p.got(1)
		return p.poll(try)
	}
	p.got(bulkBytes - 1)
	if p.poll(never) || asked != 0 {
		t.Errorf("asked %d times for little", asked)
	}
	if chance(never) || asked != pollTries {
		t.Errorf("asked %d times, want %d", asked, pollTries)
	}
	for want := 0; want < 3*maxSkips; want = 2*want + 1 {
		skipped := 0
		for chance(never); asked == 0; chance(never) {
			skipped++
		}
		if skipped != min(want, maxSkips) {
			t.Errorf("%d chances left out, want %d", skipped, min(want, maxSkips))
		}
	}
	third := func() bool { asked++; return asked == 3 }
	for !chance(third) {
		if asked != 0 {
			t.Fatalf("nothing after asking %d times", asked)
		}
	}
	if !chance(third) || asked != 3 {
		t.Error("not asked again after something came")
	}
	if p.poll(never) {
		t.Error("nothing came since")
	}
	if n := testing.AllocsPerRun(10, func() { chance(never) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
