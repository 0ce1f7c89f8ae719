package benchcontrol

import (
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/measure"
)

// TestShared: both programs get the lines that describe the network, and none that one of them refuses.
func TestShared(t *testing.T) {
	got := shared("TestingTorNetwork 1\nPathsNeededToBuildCircuits 0.67\nDirAuthority a orport=1\nDirAuthority b orport=2\nSafeLogging 0\n")
	if got != "TestingTorNetwork 1\nDirAuthority a orport=1\nDirAuthority b orport=2\n" {
		t.Error(got)
	}
}

// TestIsOurs: an event that is missing, comes twice or is of another round is noticed.
func TestIsOurs(t *testing.T) {
	for rest, want := range map[string]bool{
		"from7.test to2-107.test NEVER": true, "from7.test to2-108.test NEVER": false, "from7.test to1-107.test NEVER": false, "from7.test": false, "": false,
	} {
		if got := isOurs(ctor.Event{Type: "ADDRMAP", Rest: rest}, 2, 107); got != want {
			t.Errorf("%q: %v", rest, got)
		}
	}
}

// TestJudge: each goal is met at its bound, and not beyond it.
func TestJudge(t *testing.T) {
	of := func(halt, rate, share float64) *Report {
		f := func(name string) *Figures {
			return &Figures{Name: name, Halt: &measure.Latency{Max: halt}, GetInfo: &measure.Latency{}, Events: &Events{PerSecond: rate, Lag: &measure.Latency{}}, Share: share, Idle: 1}
		}
		r := &Report{Network: "n", Programs: []*Figures{f("C tor"), f("chive")}}
		r.judge(10_000)
		return r
	}
	for _, x := range []struct {
		r    *Report
		want []bool
	}{
		{of(300, 9_800, 0.97), []bool{true, true, true}}, {of(301, 9_800, 0.97), []bool{false, true, true}},
		{of(300, 9_700, 0.97), []bool{true, false, true}}, {of(300, 9_800, 0.96), []bool{true, true, false}},
	} {
		var b strings.Builder
		if err := x.r.Write(&b); err != nil || len(x.r.Goals) != 3 {
			t.Fatal(err, x.r.Goals)
		}
		for i, g := range x.r.Goals {
			if g.Met != x.want[i] {
				t.Errorf("%s\n%s", g.What, &b)
			}
		}
	}
}

func TestMedian(t *testing.T) {
	if a, b := median([]float64{3, 1, 2}), median([]float64{4, 1, 2, 3}); a != 2 || b != 2.5 {
		t.Error(a, b)
	}
}
