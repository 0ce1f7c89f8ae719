package benchcirc

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
)

// asRelay makes the test binary one of the measurement's relays.
const asRelay = "CHIVE_TEST_BENCH_RELAY"

func TestMain(m *testing.M) {
	if os.Getenv(asRelay) != "" {
		if err := ServeRelay(context.Background(), os.Stdin, os.Stdout, os.Getpid()); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func quiet(int, int, int) {}

func run(t *testing.T, p Plan) *Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := Run(ctx, p, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed > 0 || r.SuccessRate != 100 || len(r.Samples) != p.Count {
		t.Fatalf("%d of %d circuits failed: %v", r.Failed, r.Count, r.Errors)
	}
	return r
}

// TestEverySet: circuits of each parameter set and carriage, through relays in
// processes of their own, and all of them.
func TestEverySet(t *testing.T) {
	count := 100
	if testing.Short() {
		count = 10
	}
	t.Setenv(asRelay, "1")
	for _, c := range []struct{ handshake, carriage, want string }{
		{"ntor", "", "---"}, {"ntor-v3", "", "---"}, {"pq512", "", "AAA"}, {"pq768", "A", "AAA"}, {"pq1024", "A", "AAA"}, {"pq768", "B", "BBB"},
	} {
		r := run(t, Plan{Count: count, Hops: 3, Handshake: c.handshake, Carriage: c.carriage, Command: []string{os.Args[0]}})
		if r.Carriage != c.want || len(r.Stages) != 4 || r.Relays != "processes" {
			t.Errorf("%s: carriage %s, %d stages, relays %v", c.handshake, r.Carriage, len(r.Stages), r.Relays)
		}
		for i, s := range r.Stages[1:] {
			// Processor time of who computed the handshake, and of the relay that did.
			if s.ClientCPU <= 0 || s.Crypto <= 0 || s.RelayCPU[i] <= 0 || s.RelayCrypto <= 0 {
				t.Errorf("%s, %s: %+v", c.handshake, s.Name, s)
			}
			for k := range r.Samples {
				if h := &r.Samples[k].Hops[i]; h.ClientCPU <= 0 || h.Crypto <= 0 || h.RelayCrypto <= 0 || len(h.RelayCPU) != 3 || (h.Ahead > 0) != (i > 0) {
					t.Fatalf("%s, circuit %d, %s: %+v", c.handshake, k+1, s.Name, h)
				}
			}
		}
		sum := 0.0
		for _, s := range r.Stages {
			sum += s.Mean
		}
		if math.Abs(sum-r.Mean) > 1e-6*r.Mean {
			t.Errorf("%s: the stages' means add up to %v of %v", c.handshake, sum, r.Mean)
		}
	}
}

// TestColdDirectory fetches and verifies it for each circuit; with circuits of
// every length besides.
func TestColdDirectory(t *testing.T) {
	r := run(t, Plan{Count: 5, Hops: 2, Handshake: "pq512", Cold: true, Lengths: 3})
	if r.Directory != "cold" || r.DirectoryUS < r.Stages[0].Min || r.Relays != "in-process" || len(r.Lengths) != 8 {
		t.Errorf("%+v", r)
	}
	for i, l := range r.Lengths {
		if l.Hops != i+1 || len(l.Samples) != 3 || len(l.Samples[0].Hops) != l.Hops || l.Failed != 0 {
			t.Errorf("length %d: %+v", i+1, l)
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"total_us", "total_ms", "mean_us", "median_us", "min_us", "max_us", "stddev_us", "p95_us", "p99_us", "directory_us", "hop1_us", "hop2_us", "success_rate", "handshake", "carriage", "machine", "samples"} {
		if m[k] == nil {
			t.Errorf("the JSON lacks %s", k)
		}
	}
	if m["hop3_us"] != nil || m["success_rate"] != 100.0 || m["hop2_us"] != r.Stages[2].Mean {
		t.Error(m["hop3_us"], m["success_rate"], m["hop2_us"])
	}
}

func TestPlanRefused(t *testing.T) {
	good := Plan{Count: 1, Hops: 3, Handshake: "pq768"}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Plan){
		"count":          func(p *Plan) { p.Count = 0 },
		"hops":           func(p *Plan) { p.Hops = 9 },
		"handshake":      func(p *Plan) { p.Handshake = "tap" },
		"carriage":       func(p *Plan) { p.Carriage = "C" },
		"carriage of v3": func(p *Plan) { p.Handshake, p.Carriage = "ntor-v3", "A" },
		"lengths":        func(p *Plan) { p.Network, p.Lengths = netdir.Public(), 1 },
		"public hops":    func(p *Plan) { p.Network, p.Hops = netdir.Public(), 2 },
	} {
		p := good
		change(&p)
		if err := p.Check(); !fault.Is(err, fault.Config) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDescribe(t *testing.T) {
	if s := Describe(nil); s != (Stats{}) {
		t.Error(s)
	}
	if s := Describe([]float64{7}); s != (Stats{7, 7, 7, 7, 0, 7, 7}) {
		t.Error(s)
	}
	s := Describe([]float64{5, 1, 4, 2, 3})
	if s.Mean != 3 || s.Median != 3 || s.Min != 1 || s.Max != 5 || math.Abs(s.StdDev-math.Sqrt(2.5)) > 1e-12 || math.Abs(s.P95-4.8) > 1e-12 || math.Abs(s.P99-4.96) > 1e-12 {
		t.Errorf("%+v", s)
	}
}

// TestRelayDies: a relay that cannot start is an error, and leaves nothing.
func TestRelayDies(t *testing.T) {
	_, err := Run(t.Context(), Plan{Count: 1, Hops: 1, Handshake: "ntor-v3", Command: []string{"/bin/false"}}, quiet)
	if !fault.Is(err, fault.Local) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Plan{Count: 1, Hops: 1, Handshake: "ntor-v3"}, quiet); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestPlot: every figure is drawn, with the samples beside; nothing is drawn of
// nothing.
func TestPlot(t *testing.T) {
	r := run(t, Plan{Count: 5, Hops: 2, Handshake: "pq512", Lengths: 2})
	dir := filepath.Join(t.TempDir(), "figures")
	if err := r.Plot(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stage_breakdown", "handshake_vs_circuit", "latency_distribution", "network_vs_crypto", "performance_summary", "scalability"} {
		for _, ext := range []string{".png", ".pdf"} {
			if fi, err := os.Stat(filepath.Join(dir, name+ext)); err != nil || fi.Size() < 3000 {
				t.Error(name+ext, err)
			}
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "circuits.json"))
	if err != nil {
		t.Fatal(err)
	}
	var raw struct{ Samples []Sample }
	if err := json.Unmarshal(b, &raw); err != nil || len(raw.Samples) != 5 {
		t.Error(err, len(raw.Samples))
	}
	if err := new(Report).Plot(dir); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
}
