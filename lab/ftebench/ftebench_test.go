package ftebench

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

func TestPlanIsChecked(t *testing.T) {
	good := Plan{Connections: []int{1}, Time: time.Millisecond, Pings: 1, Demand: 1}
	for name, change := range map[string]func(*Plan){
		"no connections":  func(p *Plan) { p.Connections = nil },
		"zero connection": func(p *Plan) { p.Connections = []int{0} },
		"no time":         func(p *Plan) { p.Time = 0 },
		"no pings":        func(p *Plan) { p.Pings = 0 },
		"no demand":       func(p *Plan) { p.Demand = 0 },
	} {
		p := good
		change(&p)
		if _, err := Run(t.Context(), p, func(string) {}); !fault.Is(err, fault.Config) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRun measures the bare machine, and reports pairs that cannot start as
// failed without stopping.
func TestRun(t *testing.T) {
	lines := 0
	r, err := Run(t.Context(), Plan{
		Chive: "/nonexistent/chive", Kinds: []string{Classic, Strict, "none", Fteproxy}, Formats: []string{"words"},
		Connections: []int{3, 1}, Time: 20 * time.Millisecond, Pings: 1, Demand: 1,
	}, func(string) { lines++ })
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Raw) != 2 || r.Raw[0].Connections != 1 || r.Raw[1].Up <= 0 || r.Raw[1].Down <= 0 {
		t.Errorf("raw: %+v", r.Raw)
	}
	for _, p := range r.Pairs {
		if p.Failed == "" || len(p.Points) != 0 {
			t.Errorf("%s works without a program: %+v", p.Kind, p)
		}
	}
	if len(r.Pairs) != 4 || lines != 6 {
		t.Errorf("%d pairs, %d lines", len(r.Pairs), lines)
	}
}

func TestPingsAndExpansion(t *testing.T) {
	b, err := newBackend()
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	k, err := newCounter(b.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	p50, p95, err := b.pings(t.Context(), k.addr(), 20)
	if err != nil || p50 <= 0 || p95 < p50 {
		t.Errorf("round trips %v, %v: %v", p50, p95, err)
	}
	// Nothing between counter and backend expands, besides the first byte.
	up, down, err := b.expansion(t.Context(), k.addr(), k)
	if err != nil || up < 1 || up > 1.001 || down != 1 {
		t.Errorf("expansion %v, %v: %v", up, down, err)
	}
}

func TestPlot(t *testing.T) {
	curve := func(scale float64) (ps []Point) {
		for n := 1; n <= 5; n++ {
			ps = append(ps, Point{Connections: 10 * n, Up: scale * float64(n), Down: scale})
		}
		return ps
	}
	r := Report{Raw: curve(1000), Pairs: []Result{{Kind: Classic, Format: "words", Points: curve(100)}, {Kind: Strict, Format: "x", Failed: "why"}}}
	dir := filepath.Join(t.TempDir(), "plots")
	if err := r.Plot(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"throughput.png", "perconn.png", "proxied.png"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if img, err := png.Decode(bytes.NewReader(b)); err != nil || img.Bounds().Dx() != 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
