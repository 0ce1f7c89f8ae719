package bench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/measure"
)

// TestRelay measures next to nothing of everything.
func TestRelay(t *testing.T) {
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	bin := filepath.Join(t.TempDir(), "chivelab") // only it writes profiles
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/chivenet/chive/chivelab")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	profiles := filepath.Join(t.TempDir(), "profiles")
	p := RelayPlan{Program: bin, Schedulers: []string{"Vanilla"}, Onionskins: 50, Log: t.Output(), Profiles: profiles,
		Measure:  measure.Plan{Circuits: []int{2}, Bytes: 100_000, Loaded: 1, LoadedPings: 5, Pings: 3},
		Progress: func(s string) { t.Log(s) }}
	r, err := Relay(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Reports) != 3 || len(r.Onionskins) != 5 {
		t.Fatalf("%d reports, %d of onionskins", len(r.Reports), len(r.Onionskins))
	}
	for _, m := range r.Reports {
		if len(m.Throughput) != 2 || len(m.Throughput[0].CPU) != 4 || m.Throughput[0].CPU[3].MicrosPerCell <= 0 || m.Ping.Count != 3 || m.Loaded.Ping.Count != 5 {
			t.Errorf("%+v", m)
		}
	}
	for _, o := range r.Onionskins {
		if o.PerSecond <= 0 {
			t.Errorf("%+v", o)
		}
	}
	for _, name := range positions {
		if s, err := os.Stat(filepath.Join(profiles, "Vanilla-"+name+".pprof")); err != nil || s.Size() == 0 {
			t.Errorf("profile: %v", err)
		}
	}
	var all strings.Builder
	for _, g := range r.Goals {
		all.WriteString(g.What + "\n")
	}
	for _, want := range []string{"2 circuits down, MB/s (Vanilla), all-Chive path", "exit CPU, 2 circuits up", "beside 1 circuits, p99", "per core and s, ntor-v3"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no goal %q in\n%s", want, all.String())
		}
	}
}

func TestRelayGoals(t *testing.T) {
	path := func(mbps, cpu, rss, p99 float64) *measure.Report {
		return &measure.Report{
			Throughput: []measure.Throughput{{Direction: "down", Streams: 200, MBps: mbps,
				CPU:    []measure.CPU{{Process: "client", MicrosPerCell: 9}, {Process: "exit", MicrosPerCell: cpu}},
				Memory: []measure.Memory{{Process: "client"}, {Process: "exit", RSS: rss}}},
				{Direction: "down", Streams: 10, Circuits: 10, MBps: mbps}},
			Loaded: &measure.Loaded{Circuits: 10, Ping: measure.Latency{Median: 10, P95: 20, P99: p99}},
		}
	}
	goals := relayGoals("KIST", path(50, 9, 105, 50), path(100, 2, 61, 49), path(151, 1, 50, 1))
	want := map[string]bool{
		"exit CPU, 200 streams down, us/cell (KIST)":       true,
		"exit RSS, 200 streams down, MB (KIST)":            false,
		"10 circuits down, MB/s (KIST), all-Chive path":    true,
		"round trip beside 10 circuits, median, ms (KIST)": true,
		"round trip beside 10 circuits, p95, ms (KIST)":    true,
		"round trip beside 10 circuits, p99, ms (KIST)":    true,
	}
	if len(goals) != len(want) {
		t.Errorf("%d goals, want %d", len(goals), len(want))
	}
	for _, g := range goals {
		if met, known := want[g.What]; !known || g.Met != met {
			t.Errorf("%+v, want met %v", g, met)
		}
	}
	skins := []Onionskins{{Handshake: "ntor", PerSecond: 7000}, {Handshake: "ntor-v3", PerSecond: 7000}, {Handshake: "ntor", PerSecond: 6999}, {Handshake: "ntor-v3", PerSecond: 7001}, {Handshake: "pq768", PerSecond: 1}}
	if g := onionGoals("KIST", skins); len(g) != 2 || g[0].Met || !g[1].Met {
		t.Errorf("%+v", g)
	}
}
