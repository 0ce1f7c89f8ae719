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
			Connect:    &measure.Latency{Median: 2 * ping},
			FirstByte:  &measure.Latency{Median: 3},
			Crowd:      &measure.Connect{Answer: measure.Latency{Median: ping}, FirstByte: measure.Latency{Median: 7}},
			Bootstrap:  &measure.Bootstrap{Cold: 0.1},
			Idle:       []measure.Memory{{RSS: 25}},
		}
	}
	goals := clientGoals(rep(50, 4, 2, 1), rep(60, 3, 2, 0.5), false)
	want := map[string]bool{
		"one stream down, MB/s":       true,  // 1.2
		"client CPU, 1 down, us/cell": false, // 0.75
		"3-hop build, median ms":      true,  // 1
		"round trip, median ms":       true,
		"bootstrap, cold, s":          true,

		"connect, median ms to the answer":          true,
		"connect, to the first byte":                false,
		"connect, a crowd, median ms to the answer": true,
		"connect, a crowd, to the first byte":       false,
		"RSS idle, MB":                              false,
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
	if err := WriteGoals(&b, goals); err != nil || strings.Count(b.String(), "NOT MET") != 4 {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestConfluxGoals: with conflux the client's time has a lower limit, and its throughput none.
func TestConfluxGoals(t *testing.T) {
	rep := func(cpu float64) *measure.Report {
		return &measure.Report{Throughput: []measure.Throughput{{Direction: "down", Streams: 1, MBps: 1, CPU: []measure.CPU{{Process: "client", MicrosPerCell: cpu}}}}}
	}
	for _, conflux := range []bool{false, true} {
		goals := clientGoals(rep(1), rep(0.55), conflux)
		last := goals[len(goals)-1]
		if last.Met == conflux || (len(goals) == 1) != conflux {
			t.Errorf("conflux %v: %+v", conflux, goals)
		}
	}
}
