package bench

import (
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/lab/measure"
)

func TestClientGoals(t *testing.T) {
	rep := func(mbps, cpu, build, ping float64) *measure.Report {
		return &measure.Report{
			Throughput: []measure.Throughput{{Direction: "down", Streams: 1, MBps: mbps, CPU: []measure.CPU{{Process: "client", MicrosPerCell: cpu}}}},
			Build:      &measure.Build{Total: measure.Latency{Median: build}},
			Ping:       &measure.Latency{Median: ping},
			Bootstrap:  &measure.Bootstrap{Cold: 0.1},
			Idle:       []measure.Memory{{RSS: 25}},
		}
	}
	goals := clientGoals(rep(50, 4, 2, 1), rep(60, 3, 2, 0.5))
	want := map[string]bool{
		"one stream down, MB/s":       true,  // 1.2
		"client CPU, 1 down, us/cell": false, // 0.75
		"3-hop build, median ms":      true,  // 1
		"round trip, median ms":       true,
		"bootstrap, cold, s":          true,
		"RSS idle, MB":                false,
	}
	if len(goals) != len(want) {
		t.Errorf("%d goals, want %d", len(goals), len(want))
	}
	for _, g := range goals {
		if met, known := want[g.What]; !known || g.Met != met {
			t.Errorf("%+v, want met %v", g, met)
		}
	}
	var b strings.Builder
	if err := WriteGoals(&b, goals); err != nil || strings.Count(b.String(), "NOT MET") != 2 {
		t.Errorf("%v\n%s", err, b.String())
	}
}
