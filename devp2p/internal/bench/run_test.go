package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestResume: what is finished is not measured again, and what belongs to another run is
// refused.
func TestResume(t *testing.T) {
	dir, sizes := t.TempDir(), Short()
	ran := map[string]int{}
	broken := errors.New("broken")
	fail := error(broken)
	list := []step{
		{tableConnection, func(context.Context, *world) ([]Row, error) {
			ran["a"]++
			return []Row{{tableConnection, "chive", caseLater, stageAll, unitMS, distOf([]float64{1, 2})}}, nil
		}},
		{tablePing, func(context.Context, *world) ([]Row, error) {
			ran["b"]++
			return []Row{{tablePing, "chive", "", "round trip", unitMS, distOf([]float64{3})}}, fail
		}},
	}
	var said strings.Builder
	cfg := Config{Sizes: sizes, Dir: dir, Progress: func(s string) { said.WriteString(s + "\n") }}
	if _, err := run(t.Context(), cfg, list); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	fail = nil
	r, err := run(t.Context(), cfg, list)
	if err != nil || ran["a"] != 1 || ran["b"] != 2 || len(r.Parts) != 2 {
		t.Fatalf("%v, %v, %+v", err, ran, r)
	}
	if row, ok := r.find(tableConnection, "chive", caseLater, stageAll); !ok || row.N != 2 || row.Mean != 1.5 {
		t.Errorf("kept: %+v", row)
	}
	if !strings.Contains(said.String(), "step 1 of 2, connection: is finished already") {
		t.Errorf("it said\n%s", &said)
	}
	cfg.Sizes.Rounds++
	if _, err := run(t.Context(), cfg, list); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("another run's directory: %v", err)
	}
	cfg.Sizes = sizes
	if err := os.WriteFile(filepath.Join(dir, "parts", tablePing+".json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), cfg, list); err == nil || !strings.Contains(err.Error(), "measured again") {
		t.Errorf("a broken part: %v", err)
	}
}

// TestSteps: all tables have steps, but for those that need onions where there are none.
func TestSteps(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range steps(Defaults()) {
		if seen[s.name] {
			t.Errorf("%s twice", s.name)
		}
		seen[s.name] = true
	}
	for _, want := range []string{"connection", "throughput", "ping-pong", "peers-0", "peers-200", "shares-100", "load-90", "circuits", "policies", "links"} {
		if !seen[want] {
			t.Errorf("no step %s in %v", want, seen)
		}
	}
	for _, s := range steps(Sizes{Kinds: []Kind{Clear}}) {
		if s.name == tableCircuits {
			t.Error("circuits of a plain connection")
		}
	}
}

// TestSizes names mistakes.
func TestSizes(t *testing.T) {
	for name, change := range map[string]func(*Sizes){
		"no kind": func(s *Sizes) { s.Kinds = nil }, "an unknown kind": func(s *Sizes) { s.Kinds = []Kind{"x"} },
		"falling": func(s *Sizes) { s.Peers = []int{2, 1} }, "no peer": func(s *Sizes) { s.Peers = []int{0} }, "many": func(s *Sizes) { s.Peers = []int{MaxPeers + 1} },
		"no time": func(s *Sizes) { s.While = 0 }, "no bytes": func(s *Sizes) { s.Bytes = 0 }, "no rounds": func(s *Sizes) { s.Rounds = 0 },
	} {
		s := Defaults()
		if change(&s); s.Check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := errors.Join(Defaults().Check(), Short().Check()); err != nil {
		t.Error(err)
	}
}

// TestDist: percentiles are values that were measured.
func TestDist(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i))
	}
	if d := distOf(hundred); d != (Dist{100, 1, 50.5, 50, 95, 99, 100}) {
		t.Errorf("%+v", d)
	}
	if d := distOf([]float64{7}); d != (Dist{1, 7, 7, 7, 7, 7, 7}) {
		t.Errorf("%+v", d)
	}
	if d := distOf(nil); d != (Dist{}) {
		t.Errorf("%+v", d)
	}
	if v := rate(2_000_000, time.Second/2); v != 4 {
		t.Errorf("%v MB/s", v)
	}
}
