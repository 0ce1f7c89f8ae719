package experiment

import (
	"errors"
	"fmt"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/chivelab/internal/links"
)

// made makes a report of samples that follow a rule. Each has ten packets.
func made(t *testing.T, name, doc string, n int, change func(*Sample)) *Report {
	t.Helper()
	f, err := Parse(name, []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	f.Repetitions, f.Downloads, f.Directories = n, n, n
	r := rand.New(rand.NewPCG(1, uint64(n)))
	var samples []Sample
	for _, task := range f.Tasks() {
		s := Sample{Task: task, Session: 1, Values: map[string]float64{}, Lateness: Lateness{links.Lateness{Packets: 10}}}
		for _, m := range map[string][]string{KindCircuit: {"total", "hop1", "hop2", "begin", "round_trip"}, KindDownload: {"first_byte", "goodput"}, KindDirectory: {"directory"}}[task.Kind] {
			s.Values[m] = 10 + r.Float64()
		}
		change(&s)
		samples = append(samples, s)
	}
	return NewReport(f, nil, samples)
}

func TestReport(t *testing.T) {
	r := made(t, "small.toml", small, 30, func(s *Sample) {
		if s.Handshake == "pq768-B" && s.Kind == KindCircuit {
			s.Values["total"] *= 2
		}
		if s.Handshake == "ntor-v3" && s.Repetition <= 3 {
			s.Failed = "broken"
		}
	})
	if len(r.Groups) != 5 || r.Refused() != 0 || r.Failed() != 6 {
		t.Fatalf("%d groups, %d refused, %d failed", len(r.Groups), r.Refused(), r.Failed())
	}
	g := r.group(KindCircuit, "ntor-v3")
	if g.Samples != 30 || g.Failed != 3 || g.Measures["total"].N != 27 || !slices.Equal(g.Errors, []Tell{{"broken", 3}}) || g.CostCI != nil {
		t.Errorf("%+v", g)
	}
	cost := r.group(KindCircuit, "pq768-B")
	if cost.CostCI == nil || cost.CostCI.Low > cost.Cost || cost.CostCI.High < cost.Cost {
		t.Fatalf("%+v", cost)
	}
	near(t, "cost", cost.Cost, 2, .1)
	for _, want := range []string{"small\n", "3 of 30 failed; the first: broken", "goodput", "Mbit/s", "cost"} {
		if !strings.Contains(r.Table(), want) {
			t.Errorf("the table has no %q:\n%s", want, r.Table())
		}
	}
}

// TestLate: a group of which too much was late has no values, and late samples do not count in others.
func TestLate(t *testing.T) {
	for _, c := range []struct {
		late    int // repetitions
		far     uint64
		refused bool
	}{{0, 0, false}, {3, 0, false}, {4, 0, true}, {0, 1, true}} {
		r := made(t, "small.toml", small, 30, func(s *Sample) {
			if s.Late = s.Repetition <= c.late; s.Late {
				s.Values = map[string]float64{"total": 1e6}
			}
			s.Far, s.Sum = c.far, time.Millisecond
		})
		for i := range r.Groups {
			g := &r.Groups[i]
			if (g.Refused != "") != c.refused || c.refused != (g.Measures == nil) || g.Late != c.late {
				t.Errorf("%+v: %+v", c, g)
			}
		}
		if m := r.Groups[0].Measures["total"]; !c.refused && m.Max > 11 {
			t.Errorf("%+v: a late sample counts: %+v", c, m)
		}
		if c.refused != strings.Contains(r.Table(), "refused: ") {
			t.Error(r.Table())
		}
		if n, err := Figures([]*Report{r}, t.TempDir()); c.refused != (len(n) == 0) || err != nil {
			t.Errorf("%+v: figures %v, %v", c, n, err)
		}
	}
}

func TestCompare(t *testing.T) {
	plain := func(*Sample) {}
	a, same := made(t, "a.toml", small, 40, plain), made(t, "b.toml", small, 41, plain)
	c := Compare(a, same)
	if len(c.All) != 2*5+2*2+1 || len(c.Also) != 0 {
		t.Fatalf("%d measures, %v", len(c.All), c.Also)
	}
	for _, d := range c.All {
		if d.Differs {
			t.Errorf("nothing differs: %+v", d)
		}
	}
	other := made(t, "b.toml", strings.Replace(small, `"1ms"`, `"2ms"`, 1), 40, func(s *Sample) {
		if s.Kind == KindDownload && s.Handshake == "ntor-v3" {
			s.Values["goodput"] += 1
		}
		if s.Kind == KindDirectory && s.Repetition > 9 {
			s.Failed = "x"
		}
	})
	c = Compare(a, other)
	var differ []string
	for _, d := range c.All {
		if d.Differs {
			differ = append(differ, d.Handshake+" "+d.Measure)
			if d.CI.Low > d.Ratio || d.Ratio > d.CI.High || d.Ratio <= 1 {
				t.Errorf("%+v", d)
			}
		}
	}
	if !slices.Equal(differ, []string{"ntor-v3 goodput"}) {
		t.Errorf("%v", differ)
	}
	also := strings.Join(c.Also, "\n")
	for _, want := range []string{"the links differ", "directory: 0 of 40 failed, and 31 of 40", "40 and 9 values are too few"} {
		if !strings.Contains(also, want) {
			t.Errorf("it does not say %q: %s", want, also)
		}
	}
	if text := c.Table(); !strings.Contains(text, "1 of 14 measures differ") || !strings.Contains(text, "also: the links differ") {
		t.Error(text)
	}
	less := made(t, "c.toml", strings.Replace(small, `"ntor-v3", `, "", 1), 40, func(s *Sample) { s.Late = s.Kind == KindDownload })
	also = strings.Join(Compare(a, less).Also, "\n") + strings.Join(Compare(less, a).Also, "\n")
	for _, want := range []string{"circuit ntor-v3: the second has none", "circuit ntor-v3: the first has none", "download pq768-B: refused"} {
		if !strings.Contains(also, want) {
			t.Errorf("it does not say %q: %s", want, also)
		}
	}
}

// TestFigures: every figure is drawn in every format.
func TestFigures(t *testing.T) {
	var reports []*Report
	for i, c := range [][2]string{{"h01-z1-up", small}, {"h07-z1-down", small}, {"longer", strings.Replace(strings.Replace(small, `["a", "b"]`, `["c", "a", "b"]`, 1), `name = "a"`, "name = \"c\"\nrole = \"relay\"\n\n[[node]]\nname = \"a\"", 1)}} {
		reports = append(reports, made(t, c[0]+".toml", c[1], 20+i, func(s *Sample) {
			if s.Kind == KindCircuit {
				s.Values["hop3"] = 5
			}
		}))
	}
	dir := filepath.Join(t.TempDir(), "figures")
	names, err := Figures(reports, dir)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, r := range reports {
		for _, f := range []string{"stages", "build", "round-trip", "first-byte", "goodput", "cost"} {
			want = append(want, strings.TrimSuffix(r.File, ending)+"-"+f)
		}
	}
	want = append(want, "topologies", "up-and-down", "hops", "cost-by-rate", "cost-by-delay", "cost-by-loss")
	if !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
	for _, n := range names {
		for _, f := range formats {
			if err := isFigure(filepath.Join(dir, n+"."+f), f); err != nil {
				t.Errorf("%s.%s: %v", n, f, err)
			}
		}
	}
}

func isFigure(name, format string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	switch format {
	case "png":
		img, err := png.Decode(strings.NewReader(string(b)))
		if err != nil {
			return err
		}
		colors := map[any]bool{}
		for x := range img.Bounds().Dx() {
			colors[img.At(x, img.Bounds().Dy()/2)] = true
		}
		if len(colors) < 2 {
			return errors.New("nothing is drawn")
		}
	case "svg":
		if !strings.Contains(string(b), "</svg>") {
			return errors.New("it is no whole SVG")
		}
	case "pdf":
		if !strings.HasPrefix(string(b), "%PDF-") || !strings.Contains(string(b), "%%EOF") {
			return fmt.Errorf("it is no whole PDF: %.20q", b)
		}
	}
	return nil
}
