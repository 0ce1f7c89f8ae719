package scale

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
)

// TestRun loads both relays with next to nothing: each figure is there, and what is opened stays open.
func TestRun(t *testing.T) {
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	bin := filepath.Join(t.TempDir(), "chive")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/chivenet/chive/cmd/chive")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, err := Run(ctx, Plan{Links: 20, Circuits: 50, Idle: time.Second, Settle: time.Second, Program: bin, Log: t.Output(), Progress: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Relays) != 2 || r.Relays[0].Name != "C tor" || r.Relays[1].Name != "Chive" {
		t.Fatalf("%+v", r.Relays)
	}
	for _, m := range r.Relays {
		if m.Refused != 0 || m.LinksClosed != 0 || m.CircuitsClosed != 0 || m.LinkCPU <= 0 || m.Whole.RSS <= 0 || m.Whole.Peak < m.Whole.RSS || m.After.RSS <= 0 {
			t.Errorf("%+v", m)
		}
	}
}

func TestCheck(t *testing.T) {
	good := Plan{Links: 1, Idle: time.Second, Settle: time.Second}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Plan){
		"links: ":         func(p *Plan) { p.Links = 0 },
		"links: 1 to":     func(p *Plan) { p.Links = maxLinks + 1 },
		"circuits: ":      func(p *Plan) { p.Circuits = -1 },
		"circuits: 0 to":  func(p *Plan) { p.Circuits = maxCircuits + 1 },
		"must be watched": func(p *Plan) { p.Idle = time.Millisecond },
		"and rest for":    func(p *Plan) { p.Settle = 0 },
	} {
		p := good
		change(&p)
		if err := p.Check(); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSources: the addresses are of loopback and differ, and each has a few links.
func TestSources(t *testing.T) {
	seen := map[string]int{}
	for i := range maxLinks {
		a := source(i)
		if !a.IsLoopback() {
			t.Fatalf("%d: %v", i, a)
		}
		seen[a.String()]++
	}
	for a, n := range seen {
		if n > perAddress {
			t.Errorf("%s has %d links", a, n)
		}
	}
	if len(seen) != maxLinks/perAddress {
		t.Errorf("%d addresses", len(seen))
	}
}

func TestTable(t *testing.T) {
	of := func(name string, rss int64) Measured {
		return Measured{Name: name, Base: AtRest{RSS: 1e6}, WithLinks: AtRest{RSS: 1e6 + rss}, Whole: AtRest{RSS: 1e6 + 3*rss, CPU: 5}, LinkCPU: time.Millisecond, Refused: 7}
	}
	r := &Report{Links: 100, Circuits: 1000, Relays: []Measured{of("C tor", 1e6), of("Chive", 2e6)}}
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	all := strings.Join(lines, "\n")
	for _, want := range []string{
		"100 links, 1000 circuits C tor Chive ratio\n", "a link's memory, kB 10 20 2.00\n", "a circuit's memory, kB 2 4 2.00\n",
		"a link's handshakes, ms of a processor 1 1 1.00\n", "circuits refused 7 7 1.00\n",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}
