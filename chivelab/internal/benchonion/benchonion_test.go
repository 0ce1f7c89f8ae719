package benchonion

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/chivelab/internal/bench"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/measure"
)

// TestRun measures next to nothing of everything.
func TestRun(t *testing.T) {
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	bin := filepath.Join(t.TempDir(), "chivelab")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/chivenet/chive/chivelab")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	p := Plan{Program: bin, Crowd: []string{bin, "bench", "onion", "crowd"}, Attacker: []string{bin, "bench", "onion", "attack"}, Schedulers: []string{"Vanilla"},
		Measure: measure.Plan{Streams: []int{1}, Bytes: 100_000, Pings: 3, Connects: 2},
		Cold:    1, Listens: 1, Relayed: 100_000, Crowds: []int{0, 3, 5}, FloodTime: time.Second, FloodRate: 50, Log: t.Output(), Progress: func(s string) { t.Log(s) }}
	r, err := Run(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Networks) != 1 || len(r.Crowds) != 2 || len(r.Floods) != 4 {
		t.Fatalf("%+v", r)
	}
	n := r.Networks[0]
	for _, m := range n.Pairs {
		if len(m.Throughput) != 2 || len(m.Throughput[0].CPU) != 2 || m.Throughput[0].CPU[1].MicrosPerCell <= 0 || m.Ping.Count != 3 || m.Connect.Count != 2 {
			t.Errorf("%+v", m)
		}
	}
	if len(n.Pairs) != 3 || len(n.Burst) != 3 || len(n.Cold) != 3 || len(n.Listens) != 4 || len(n.Rendezvous) != 2 {
		t.Errorf("%+v", n)
	}
	for _, l := range n.Listens {
		if l.FirstByte.Median < l.Published.Median || l.Published.Median <= 0 {
			t.Errorf("%s: %+v, %+v", l.What, l.Published, l.FirstByte)
		}
	}
	for _, v := range n.Rendezvous {
		if v.PerCell <= 0 {
			t.Errorf("%+v", v)
		}
	}
	for _, c := range r.Crowds {
		for _, one := range c.Pairs {
			for _, m := range []CrowdMemory{one.Open, one.Rest} {
				if m.Client <= 0 || m.Service <= 0 {
					t.Errorf("%+v", c)
				}
			}
		}
	}
	for _, f := range r.Floods {
		if f.Attacker.Taken == 0 || f.Connects == 0 || f.RSS < f.Before/2 {
			t.Errorf("%+v", f)
		}
	}
	var text strings.Builder
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"connect, new circuit, median ms (Vanilla), all Chive", "service CPU, 1 stream up", "rendezvous point CPU",
		"all Chive, Listen to first byte", "connect, no descriptor, p95 ms", "service RSS, 5 connections at rest", "flood of Chive's service, ", "flood of Chive's service with proofs of work, ", "flood: honest clients", "rendezvous point of C tor"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

func TestGoals(t *testing.T) {
	pair := func(connect, mbps, cpu float64) *measure.Report {
		return &measure.Report{Connect: &measure.Latency{Median: connect, P95: 2 * connect},
			Throughput: []measure.Throughput{{Direction: "down", Streams: 1, MBps: mbps, CPU: []measure.CPU{{Process: "client", MicrosPerCell: cpu}}}}}
	}
	second := func(v float64) Listens { return Listens{What: "Listen", FirstByte: &measure.Latency{Median: 1000 * v}} }
	n := Network{Scheduler: "KIST", Pairs: []*measure.Report{pair(100, 10, 9), pair(60, 11, 3), pair(51, 30, 8)},
		Listens: []Listens{second(5), second(1.1)}, Rendezvous: []Rendezvous{{PerCell: 6}, {PerCell: 2}}}
	goals := append(n.goals(), crowdGoals([]Crowd{{Connections: 7, Pairs: []CrowdOfOne{
		{Open: CrowdMemory{Client: 5, Service: 5}, Rest: CrowdMemory{Client: 3, Service: 5}}, {Open: CrowdMemory{Client: 4, Service: 6}, Rest: CrowdMemory{Client: 4, Service: 5}}}},
		{Connections: 9, Pairs: []CrowdOfOne{{}, {Failed: "timeout"}}}})...)
	want := map[string]bool{
		"connect, new circuit, median ms (KIST)":            true,
		"connect, new circuit, median ms (KIST), all Chive": false,
		"connect, new circuit, p95 ms (KIST)":               true,
		"connect, new circuit, p95 ms (KIST), all Chive":    false,
		"1 stream down, MB/s (KIST)":                        false,
		"1 stream down, MB/s (KIST), all Chive":             true,
		"client CPU, 1 stream down, us/cell (KIST)":         true,
		"Listen to first byte, median s (KIST)":             false,
		"rendezvous point CPU, us/cell (KIST)":              true,
		"client RSS, 7 connections just opened, MB":         true,
		"service RSS, 7 connections just opened, MB":        false,
		"client RSS, 7 connections at rest, MB":             false,
		"service RSS, 7 connections at rest, MB":            true,
		"RSS, 9 connections: Chive did not open them all":   false,
	}
	check(t, goals, want)
}

// TestFloodGoals: only with proofs of work must honest clients connect; the memory counts
// always.
func TestFloodGoals(t *testing.T) {
	flood := func(work bool, inTime, grown float64) Flood {
		return Flood{Work: work, InTime: inTime, Before: 20, RSS: 20 + grown}
	}
	check(t, floodGoals([]Flood{flood(false, 0.9, 5), flood(false, 0.1, 65), flood(true, 0.1, 200), flood(true, 0.95, 6)}), map[string]bool{
		"flood: growth of the service's RSS, MB":                             false,
		"flood: honest clients that connect within 5 s, with proofs of work": true,
		"flood: growth of the service's RSS, MB, with proofs of work":        true,
	})
	check(t, floodGoals([]Flood{flood(true, 1, 5), flood(true, 0.94, 5)}), map[string]bool{
		"flood: honest clients that connect within 5 s, with proofs of work": false,
		"flood: growth of the service's RSS, MB, with proofs of work":        true,
	})
	check(t, floodGoals(nil), nil)
}

func check(t *testing.T, goals []bench.Goal, want map[string]bool) {
	t.Helper()
	if len(goals) != len(want) {
		t.Errorf("%d goals, want %d", len(goals), len(want))
	}
	for _, g := range goals {
		if met, known := want[g.What]; !known || g.Met != met {
			t.Errorf("%+v, want met %v", g, met)
		}
	}
}
