package wan

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/atomicfile"
)

// directory writes a comparison in which the times of a side are multiplied.
func directory(t *testing.T, p Plan, times map[Side]float64) string {
	t.Helper()
	dir := t.TempDir()
	f := made(t, dir, &p)
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.WriteJSON(filepath.Join(dir, stateName), state{p, []Session{{Chive: "1", Tor: "2", Congestion: "reno"}}}, atomicfile.Report); err != nil {
		t.Fatal(err)
	}
	rows := [][]string{sampleColumns}
	for _, s := range f.samples {
		if by, ok := times[f.runs[s.Run-1].Side]; ok {
			s.First, s.Total = s.First*by, s.Total*by
		}
		rows = append(rows, s.row())
	}
	b, err := table(rows)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, SamplesName), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCompare: a change of one side's times is found in its times and ratios, and in nothing else; seeds and losses that one
// has alone do not count, and neither directory changes.
func TestCompare(t *testing.T) {
	all := Side{Chive, Chive}
	p := Short()
	a := directory(t, p, nil)
	q := p
	q.Seeds, q.Losses = 2, []float64{.01, p.Losses[1]}
	b := directory(t, q, map[Side]float64{all: 1.3, {Tor, Chive}: 1.1})
	cut := filepath.Join(a, SamplesName)
	before, err := os.ReadFile(cut)
	if err != nil {
		t.Fatal(err)
	}
	before = append(before, "99,0,0,51"...)
	if err := os.WriteFile(cut, before, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Compare(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(cut); err != nil || string(after) != string(before) {
		t.Errorf("it was changed: %v", err)
	}
	if c.Seeds != 1 || c.Runs != 4 || len(c.Cells) != 4*8 {
		t.Errorf("%d seeds, %d runs, %d cells", c.Seeds, c.Runs, len(c.Cells))
	}
	for _, x := range c.Cells {
		want := map[Side]float64{all: .3, {Tor, Chive}: .1}[x.Side]
		if x.Loss != p.Losses[1] || x.Change == nil || math.Abs(*x.Change-want) > 1e-6 {
			t.Errorf("%+v, want a change of %v", x, want)
		}
		if x.Side != Baseline && (x.RatioChange == nil || math.Abs(*x.RatioChange-want) > 1e-6) {
			t.Errorf("%+v, want a change of the ratio of %v", x, want)
		}
	}
	text := c.Table()
	for _, want := range []string{"all Chive, 0.2 % loss: 0 of 8 times and 0 of 8 ratios are within 15 %", "C tor clients, Chive relays, 0.2 % loss: 8 of 8 times and 8 of 8 ratios", "+30%*", "+10%"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
}

// TestCompareRefuses: what cannot be compared, and damaged files, are errors.
func TestCompareRefuses(t *testing.T) {
	p := Short()
	a := directory(t, p, nil)
	for want, change := range map[string]func(p *Plan, dir *string){
		"other relays, clients, rates or requests": func(p *Plan, _ *string) { p.Window++ },
		"no run of the same seed":                  func(p *Plan, _ *string) { p.Losses = []float64{.1} },
		"no comparison is there":                   func(_ *Plan, dir *string) { *dir = t.TempDir() },
	} {
		q := p
		var b string
		if change(&q, &b); b == "" {
			b = directory(t, q, nil)
		}
		if _, err := Compare(a, b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, c := range []struct{ file, text, want string }{
		{stateName, "{", stateName},
		{stateName, `{"plan":{}}`, "0 relays"},
		{RunsName, "a,b\n", "another table"},
		{RunsName, strings.Join(runColumns, ",") + "\n1,7,tor,tor,0,1,false,1,1,1,0,0,1,1\n", "no seed 7"},
		{SamplesName, strings.Join(sampleColumns, ",") + "\n1,30,0,51200,1,2,\n", "no client 30"},
		{SamplesName, strings.Join(sampleColumns, ",") + "\n1,0,0,51200,1,x,\n", SamplesName + ":2: total_ms"},
	} {
		b := directory(t, p, nil)
		if err := os.WriteFile(filepath.Join(b, c.file), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Compare(a, b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}
