package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chivenet/chive/chivelab/internal/links"
)

// Report is what an experiment found. It is made of samples alone.
type Report struct {
	Title    string    `json:"title"`
	File     string    `json:"file"`
	Seed     uint64    `json:"seed"`
	Path     []string  `json:"path"`
	Size     int64     `json:"download_bytes"`
	Links    []Link    `json:"links"`
	Sessions []Session `json:"sessions"` // when, by which version, on which machine
	Groups   []Group   `json:"groups"`
}

// Link is a link as figures need it.
type Link struct {
	Name     string  `json:"name"`
	UpMbit   float64 `json:"up_mbits"` // 0: no bound
	DownMbit float64 `json:"down_mbits"`
	UpMS     float64 `json:"up_ms"`
	DownMS   float64 `json:"down_ms"`
	UpLoss   float64 `json:"up_loss"`
	DownLoss float64 `json:"down_loss"`
}

// Group is what the samples of one kind and handshake say.
type Group struct {
	Kind      string `json:"kind"`
	Handshake string `json:"handshake,omitempty"`
	Samples   int    `json:"samples"` // repetitions that count, failed ones too
	Failed    int    `json:"failed"`
	Errors    []Tell `json:"errors,omitempty"`
	Late      int    `json:"late"` // repetitions that never counted, as the emulator was late
	// Lateness is that of the emulator in the samples that count.
	MeanLate float64 `json:"mean_late_ms"`
	FarShare float64 `json:"far_late_share"`
	// Refused says why there are no values: the machine was too slow.
	Refused  string             `json:"refused,omitempty"`
	Measures map[string]Summary `json:"measures,omitempty"`
	// Cost is the ratio of the median total to that of the first handshake.
	Cost   float64   `json:"cost,omitempty"`
	CostCI *Interval `json:"cost_ci95,omitempty"`

	values map[string][]float64
}

// Tell is an error, and how often it came.
type Tell struct {
	Error string `json:"error"`
	Times int    `json:"times"`
}

// maxTold bounds the errors of a group.
const maxTold = 10

// lateShare is the part of a group's repetitions that may be late. With more, those that are left say little of all.
const lateShare = .1

// NewReport makes a report of samples.
func NewReport(f *File, sessions []Session, samples []Sample) *Report {
	r := &Report{Title: f.Title, File: f.Name, Seed: f.Seed, Path: f.Path, Size: f.Size, Sessions: sessions}
	for _, l := range f.Links {
		u, d := l.Up.Rules, l.Down.Rules
		r.Links = append(r.Links, Link{l.Name, float64(u.Rate) / 1e6, float64(d.Rate) / 1e6, millis(u.Delay), millis(d.Delay), u.Loss, d.Loss})
	}
	for _, kind := range []string{KindCircuit, KindDownload, KindDirectory} {
		names := []string{""}
		if kind != KindDirectory {
			names = nil
			for _, h := range f.Handshakes {
				names = append(names, h.String())
			}
		}
		for _, name := range names {
			if g, ok := newGroup(kind, name, samples); ok {
				r.Groups = append(r.Groups, g)
			}
		}
	}
	var fetched []string
	for i := range samples {
		if s := &samples[i]; s.Kind == KindFetch && !slices.Contains(fetched, s.Handshake) {
			fetched = append(fetched, s.Handshake)
		}
	}
	slices.Sort(fetched)
	for _, name := range fetched {
		if g, ok := newGroup(KindFetch, name, samples); ok {
			r.Groups = append(r.Groups, g)
		}
	}
	r.costs(f.Handshakes[0].String())
	return r
}

// newGroup is false if there is nothing to tell.
func newGroup(kind, name string, samples []Sample) (g Group, ok bool) {
	g = Group{Kind: kind, Handshake: name, Measures: map[string]Summary{}, values: map[string][]float64{}}
	var late links.Lateness
	counts, wasLate := map[Task]bool{}, map[Task]bool{}
	for i := range samples {
		s := &samples[i]
		switch {
		case s.Kind != kind || s.Handshake != name || counts[s.Task]:
		case s.Late:
			wasLate[s.Task] = true
		default:
			counts[s.Task] = true
			late = late.With(s.Lateness.Lateness)
			if s.Failed != "" {
				g.fail(s.Failed)
				continue
			}
			for m, v := range s.Values {
				g.values[m] = append(g.values[m], v)
			}
		}
	}
	for t := range wasLate {
		if !counts[t] {
			g.Late++
		}
	}
	g.Samples = len(counts)
	g.MeanLate, g.FarShare = millis(late.Mean()), late.FarShare()
	switch err := (links.Bound{}).Refuse(late); {
	case g.Samples+g.Late == 0:
		return g, false
	case err != nil:
		b := links.Bound{}.Defaults()
		g.Refused = fmt.Sprintf("this machine was too slow to emulate the links: packets were late by %.3f ms on average, and %.2f %% by more than %v; the bounds are %v and %.2f %%",
			g.MeanLate, 100*g.FarShare, links.FarLate, b.Mean, 100*b.Far)
	case float64(g.Late) > lateShare*float64(g.Samples+g.Late):
		g.Refused = fmt.Sprintf("this machine was too slow to emulate the links: %d of %d repetitions do not count", g.Late, g.Samples+g.Late)
	}
	if g.Refused != "" {
		g.Measures, g.values = nil, nil
		return g, true
	}
	for m, v := range g.values {
		g.Measures[m] = Summarize(v)
	}
	return g, true
}

func (g *Group) fail(why string) {
	g.Failed++
	i := slices.IndexFunc(g.Errors, func(t Tell) bool { return t.Error == why })
	switch {
	case i >= 0:
		g.Errors[i].Times++
	case len(g.Errors) < maxTold:
		g.Errors = append(g.Errors, Tell{why, 1})
	}
}

// costs compares circuits with those of the first handshake.
func (r *Report) costs(first string) {
	base := r.group(KindCircuit, first)
	if base == nil || len(base.values[MeasureTotal]) == 0 {
		return
	}
	for i := range r.Groups {
		g := &r.Groups[i]
		if g.Kind == KindCircuit && g.Handshake != first && len(g.values[MeasureTotal]) > 0 {
			var ci Interval
			g.Cost, ci = medianRatio(base.values[MeasureTotal], g.values[MeasureTotal])
			g.CostCI = &ci
		}
	}
}

func (r *Report) group(kind, name string) *Group {
	i := slices.IndexFunc(r.Groups, func(g Group) bool { return g.Kind == kind && g.Handshake == name })
	if i < 0 {
		return nil
	}
	return &r.Groups[i]
}

// Refused is how many groups have no values, because the machine was too slow.
func (r *Report) Refused() (n int) {
	for _, g := range r.Groups {
		if g.Refused != "" {
			n++
		}
	}
	return n
}

// Failed is how many repetitions failed.
func (r *Report) Failed() (n int) {
	for _, g := range r.Groups {
		n += g.Failed
	}
	return n
}

// shown are the measures of the table, by kind, with what stands there.
var shown = []struct{ kind, measure, unit string }{
	{KindCircuit, MeasureTotal, "ms"}, {KindCircuit, measureTrip, "ms"}, {KindDownload, MeasureFirst, "ms"}, {KindDownload, measureGoodput, "Mbit/s"},
	{KindDirectory, measureDirectory, "ms"}, {KindFetch, MeasureFirst, "ms"}, {KindFetch, MeasureTotal, "ms"},
}

// Table is the report as text.
func (r *Report) Table() string {
	var b strings.Builder
	title := r.Title
	if title == "" {
		title = r.File
	}
	fmt.Fprintf(&b, "%s\n%-10s %-12s %5s %-12s %9s %19s %9s %19s %9s\n", title, "handshake", "measure", "n", "unit", "median", "95 %", "mean", "95 %", "p95")
	for _, g := range r.Groups {
		name := g.Handshake
		if name == "" {
			name = "-"
		}
		if g.Refused != "" {
			fmt.Fprintf(&b, "%-10s %-12s refused: %s\n", name, g.Kind, g.Refused)
			continue
		}
		for _, m := range shown {
			s, ok := g.Measures[m.measure]
			if m.kind != g.Kind || !ok {
				continue
			}
			fmt.Fprintf(&b, "%-10s %-12s %5d %-12s %9.2f %8.2f to %7.2f %9.2f %8.2f to %7.2f %9.2f\n",
				name, m.measure, s.N, m.unit, s.Median, s.MedianCI.Low, s.MedianCI.High, s.Mean, s.MeanCI.Low, s.MeanCI.High, s.P95)
		}
		if g.CostCI != nil {
			fmt.Fprintf(&b, "%-10s %-12s %5s %-12s %9.3f %8.3f to %7.3f\n", name, "cost", "", "ratio", g.Cost, g.CostCI.Low, g.CostCI.High)
		}
		if g.Failed > 0 {
			fmt.Fprintf(&b, "%-10s %-12s %d of %d failed; the first: %s\n", name, g.Kind, g.Failed, g.Samples, g.Errors[0].Error)
		}
	}
	return b.String()
}
