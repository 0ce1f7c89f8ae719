package experiment

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Load makes the report of an experiment's directory again, from its samples.
func Load(dir string) (*Report, error) {
	f, sessions, raw, err := Read(dir)
	if err != nil {
		return nil, err
	}
	f.Name = filepath.Base(filepath.Clean(dir)) + ending
	return NewReport(f, sessions, raw), nil
}

// fewest is how many values each side needs, so that the test of ranks means something.
const fewest = 10

// level is the chance that anything at all is called different when nothing is.
const level = .05

// Difference is what two experiments say of one measure.
type Difference struct {
	Kind      string   `json:"kind"`
	Handshake string   `json:"handshake,omitempty"`
	Measure   string   `json:"measure"`
	A         Summary  `json:"a"`
	B         Summary  `json:"b"`
	Ratio     float64  `json:"ratio"` // of the medians, B to A
	CI        Interval `json:"ratio_ci95"`
	// P is the chance of such values if both had the same distribution (Mann and Whitney), corrected for the number of
	// comparisons (Holm).
	P       float64 `json:"p"`
	Differs bool    `json:"differs"`
}

// Comparison is that of two experiments.
type Comparison struct {
	A    string       `json:"a"`
	B    string       `json:"b"`
	Also []string     `json:"also"` // what differs beside the values, or could not be compared
	All  []Difference `json:"all"`
}

// Compare compares two experiments.
func Compare(a, b *Report) *Comparison {
	c := &Comparison{A: a.File, B: b.File, Also: unlike(a, b)}
	var ps []float64
	for i := range a.Groups {
		ga := &a.Groups[i]
		name := strings.TrimSpace(ga.Kind + " " + ga.Handshake)
		gb := b.group(ga.Kind, ga.Handshake)
		switch {
		case gb == nil:
			c.Also = append(c.Also, name+": the second has none")
			continue
		case ga.Refused != "" || gb.Refused != "":
			c.Also = append(c.Also, name+": refused, as a machine was too slow")
			continue
		}
		if ga.Failed*gb.Samples != gb.Failed*ga.Samples {
			c.Also = append(c.Also, fmt.Sprintf("%s: %d of %d failed, and %d of %d", name, ga.Failed, ga.Samples, gb.Failed, gb.Samples))
		}
		var names []string
		for m := range ga.Measures {
			names = append(names, m)
		}
		slices.Sort(names)
		for _, m := range names {
			va, vb := ga.values[m], gb.values[m]
			if len(va) < fewest || len(vb) < fewest {
				c.Also = append(c.Also, fmt.Sprintf("%s, %s: %d and %d values are too few to compare", name, m, len(va), len(vb)))
				continue
			}
			d := Difference{Kind: ga.Kind, Handshake: ga.Handshake, Measure: m, A: ga.Measures[m], B: gb.Measures[m]}
			d.Ratio, d.CI = medianRatio(va, vb)
			ps = append(ps, rankSum(va, vb))
			c.All = append(c.All, d)
		}
	}
	for i := range b.Groups {
		if g := &b.Groups[i]; a.group(g.Kind, g.Handshake) == nil {
			c.Also = append(c.Also, strings.TrimSpace(g.Kind+" "+g.Handshake)+": the first has none")
		}
	}
	holm(ps)
	for i := range c.All {
		c.All[i].P, c.All[i].Differs = ps[i], ps[i] < level
	}
	return c
}

// unlike says in what two experiments were not the same.
func unlike(a, b *Report) (out []string) {
	if !slices.Equal(a.Links, b.Links) {
		out = append(out, "the links differ")
	}
	if len(a.Path) != len(b.Path) {
		out = append(out, fmt.Sprintf("the paths have %d and %d hops", len(a.Path), len(b.Path)))
	}
	if a.Size != b.Size {
		out = append(out, fmt.Sprintf("downloads have %d and %d bytes", a.Size, b.Size))
	}
	first := func(r *Report) Session {
		if len(r.Sessions) == 0 {
			return Session{}
		}
		return r.Sessions[0]
	}
	sa, sb := first(a), first(b)
	if sa.Version != sb.Version {
		out = append(out, fmt.Sprintf("the versions are %s and %s", sa.Version, sb.Version))
	}
	ma, mb := sa.Machine, sb.Machine
	if ma.Load, mb.Load = "", ""; ma != mb {
		out = append(out, "the machines differ")
	}
	return out
}

// Table is the comparison as text.
func (c *Comparison) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %-12s %10s %10s %7s %17s %8s\n", "handshake", "measure", "first", "second", "ratio", "95 %", "p")
	differ := 0
	for _, d := range c.All {
		name, says := d.Handshake, ""
		if name == "" {
			name = "-"
		}
		if d.Differs {
			says = "  differs"
			differ++
		}
		fmt.Fprintf(&b, "%-10s %-12s %10.2f %10.2f %7.3f %7.3f to %6.3f %8.3g%s\n", name, d.Measure, d.A.Median, d.B.Median, d.Ratio, d.CI.Low, d.CI.High, d.P, says)
	}
	fmt.Fprintf(&b, "%d of %d measures differ, by ranks, with a chance of at most %v that any does by luck\n", differ, len(c.All), level)
	for _, s := range c.Also {
		fmt.Fprintf(&b, "also: %s\n", s)
	}
	return b.String()
}
