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

// TestRun loads both programs with next to nothing, alone and with hostile askers beside: each figure is there, what is opened stays
// open, and whoever is honest gets all.
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
	r, err := Run(ctx, Plan{Links: 20, Circuits: 50, Onions: 5, Relays: 40, Hours: 2, Bootstraps: 3, Hostile: 1, Idle: time.Second, Settle: time.Second, Program: bin, Log: t.Output(),
		Active:   ActivePlan{Circuits: 10, Links: 2, Far: 2, Window: 186, WarmUp: 200 * time.Millisecond, Watch: time.Second, Bulk: 3, Pings: 10},
		Progress: func(s string) { t.Log(s) }})
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
		for _, s := range []Shared{m.Active.Down, m.Active.Up} {
			if s.MBps <= 0 || s.Jain <= 0.1 || s.Jain > 1.001 || s.Spread < 1 {
				t.Errorf("%s: active circuits: %+v", m.Name, s)
			}
		}
		if m.Active.Median <= 0 || m.Active.P99 < m.Active.Median || m.Active.BulkMBps <= 0 {
			t.Errorf("%s: small requests: %+v", m.Name, m.Active)
		}
	}
	checkParts(t, r)
}

func checkParts(t *testing.T, r *Report) {
	t.Helper()
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	want := map[string]float64{
		"bootstraps served": 3, "microdescriptors served": 120, "diffs served": 2, "circuits refused": 0, "links closed by the relay": 0,
		"circuits closed by the relay": 0, "descriptors taken": -1, "descriptors that can be fetched": 5, "descriptors kept": 40, "what these asked for": -1,
	}
	seen := map[string]int{}
	for _, p := range r.Parts {
		t.Log(p.Title)
		for _, f := range p.Figures {
			what := strings.TrimPrefix(f.What, besideHostile)
			if what == "what these asked for" && (len(f.Values) != 2 || f.Values[0] < 1 || f.Values[1] < 1) {
				t.Errorf("%s: hostile askers did nothing: %v", p.Title, f.Values)
			}
			if what != f.What {
				seen[what]++
			}
			v, known := want[what]
			if len(f.Values) != 2 || f.Values[0] < 0 && known || known && v >= 0 && (f.Values[0] != v || f.Values[1] != v) {
				t.Errorf("%s: %s: %v, not %v", p.Title, f.What, f.Values, v)
			}
		}
	}
	for what := range want {
		if n := seen[what]; n == 0 && what != "diffs served" {
			t.Errorf("%s: not measured beside hostile askers", what)
		}
	}
}

// TestGrowthTable: each program and figure has a line, with a column for each size.
func TestGrowthTable(t *testing.T) {
	links := func(n int) *Report {
		m := Measured{Name: chiveName, WithLinks: AtRest{RSS: int64(n) * 2000}}
		return &Report{Links: n, Relays: []Measured{m}}
	}
	relays := func(v float64, kept int) *Report {
		f := &figures{name: chiveName}
		f.add("RSS, MB", v)
		f.must("kept", kept, 5)
		return &Report{Parts: []Part{join("a cache: of some size", f)}}
	}
	g := &Growth{Links: []*Report{links(10), links(30)}, Relays: []*Report{relays(3, 5), relays(4, 5)}, Sizes: Sizes{Links: []int{10, 30}, Relays: []int{100, 200}}}
	if err := g.Err(); err != nil {
		t.Error(err)
	}
	var b strings.Builder
	if err := g.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for l := range strings.Lines(b.String()) {
		lines = append(lines, strings.Join(strings.Fields(l), " "))
	}
	all := strings.Join(lines, "\n") + "\n"
	for _, want := range []string{"links, with 16 circuits each 10 30\n", "Chive: a link's memory, kB 2 2\n", "relays of the network 100 200\n", "a cache, Chive: RSS, MB 3 4\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	g.Relays[1] = relays(4, 4)
	if g.Err() == nil {
		t.Error("what one size lost is no error")
	}
	for _, s := range []Sizes{{}, {Links: []int{0}, Relays: []int{0}}, {Links: []int{maxLinks + 1}}, {Relays: []int{19}}} {
		if _, err := Grow(t.Context(), Plan{Idle: time.Second, Settle: time.Second}, s); !fault.Is(err, fault.Config) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// TestWrong: what Chive has lost is an error, what another program has lost is none.
func TestWrong(t *testing.T) {
	part := func(tor, chive int) Part {
		a, b := &figures{name: torName}, &figures{name: chiveName}
		a.must("kept", tor, 5)
		b.must("kept", chive, 5)
		return join("a part", a, b)
	}
	for _, c := range []struct {
		r    Report
		want string
	}{
		{Report{Parts: []Part{part(4, 5)}, Relays: []Measured{{Name: torName, Refused: 1}, {Name: chiveName}}}, ""},
		{Report{Parts: []Part{part(5, 4)}}, "Chive: kept: 4, not 5"},
		{Report{Relays: []Measured{{Name: chiveName, Refused: 1}}}, "circuits refused"},
		{Report{Relays: []Measured{{Name: chiveName, LinksClosed: 1}}}, "links closed"},
		{Report{Relays: []Measured{{Name: chiveName, CircuitsClosed: 1}}}, "circuits closed"},
	} {
		err := c.r.Err()
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !fault.Is(err, fault.Resource)) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	var b strings.Builder
	r := Report{Parts: []Part{part(4, 2)}}
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(b.String()), " "); !strings.HasSuffix(got, "a part C tor Chive ratio kept 4 2 0.50") {
		t.Error(got)
	}
}

func TestCheck(t *testing.T) {
	good := Plan{Links: 1, Idle: time.Second, Settle: time.Second}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Plan){
		"links: ":          func(p *Plan) { p.Links = 0 },
		"links: 1 to":      func(p *Plan) { p.Links = maxLinks + 1 },
		"circuits: ":       func(p *Plan) { p.Circuits = -1 },
		"circuits: 0 to":   func(p *Plan) { p.Circuits = maxCircuits + 1 },
		"onion services: ": func(p *Plan) { p.Onions = maxOnions + 1 },
		"relays: 20":       func(p *Plan) { p.Relays = 19 },
		"relays: ":         func(p *Plan) { p.Relays = maxRelays + 1 },
		"hours: ":          func(p *Plan) { p.Hours = maxHours + 1 },
		"bootstraps: ":     func(p *Plan) { p.Bootstraps = -1 },
		"hostile askers: ": func(p *Plan) { p.Hostile = 101 },
		"must be watched":  func(p *Plan) { p.Idle = time.Millisecond },
		"and rest for":     func(p *Plan) { p.Settle = 0 },
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
