package benchcirc

import (
	"encoding/json"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/chivenet/chive/chivelab/plot"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// Plot draws the report's figures as PNG, PDF and SVG into a directory, which it
// creates. It also writes the raw samples there (circuits.json). The figures:
// stage_breakdown, handshake_vs_circuit, latency_distribution, network_vs_crypto,
// performance_summary, and, if circuits of all lengths were measured,
// scalability.
func (r *Report) Plot(dir string) error {
	if len(r.Samples) == 0 {
		return fault.New(fault.Config, "figures: no circuit was built")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fault.New(fault.Local, "figures: %w", err)
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if err := atomicfile.Write(filepath.Join(dir, "circuits.json"), append(b, '\n'), atomicfile.Report); err != nil {
		return fault.New(fault.Local, "figures: %w", err)
	}
	for _, f := range []struct {
		name string
		draw func() *plot.Canvas
	}{
		{"stage_breakdown", r.drawBreakdown}, {"handshake_vs_circuit", r.drawHandshake}, {"latency_distribution", r.drawDistribution},
		{"network_vs_crypto", r.drawCrypto}, {"performance_summary", r.drawSummary}, {"scalability", r.drawLengths},
	} {
		if f.name == "scalability" && len(r.Lengths) == 0 {
			continue
		}
		if err := f.draw().Save(dir, f.name); err != nil {
			return err
		}
	}
	return nil
}

// caption says what was measured, under a figure.
func (r *Report) caption(c *plot.Canvas) {
	c.Text(plot.Width/2, plot.Height-14, 11, plot.Center, fmt.Sprintf("%d circuits of %d hops, %s, carriage %s, directory %s, %s on %s (%d cores)",
		len(r.Samples), len(r.Samples[0].Hops), r.Handshake, r.Carriage, r.Directory, relaysInWords[r.Relays], r.Machine.CPU, r.Machine.Cores), plot.Grey)
}

var relaysInWords = map[string]string{"processes": "relays as processes", "in-process": "relays in one process", "network": "a network's relays"}

// short is a stage's statistics for figures.
type short struct {
	name string
	Stats
	sorted []float64
}

func (r *Report) shorts() []short {
	var out []short
	for i := range len(r.Samples[0].Hops) + 1 {
		name := "directory"
		if i > 0 {
			name = fmt.Sprintf("hop %d", i)
		}
		w := walls(r.Samples, i)
		out = append(out, short{name, Describe(w), slices.Sorted(slices.Values(w))})
	}
	return out
}

func (r *Report) drawBreakdown() *plot.Canvas {
	c := plot.New("Stages of building a circuit")
	stages, total := r.shorts(), Describe(totals(r.Samples))
	var names []string
	var colors []color.RGBA
	at, largest := 0.0, 0.0
	for i, s := range stages {
		to := at + 2*math.Pi*s.Mean/total.Mean
		c.Wedge(210, 230, 130, at, to, plot.Color(i))
		at = to
		largest = max(largest, s.Mean+s.StdDev)
		names = append(names, fmt.Sprintf("%s: %s µs, %.1f %%", s.name, plot.Number(s.Mean), 100*s.Mean/total.Mean))
		colors = append(colors, plot.Color(i))
	}
	c.Key(110, 390, names[:min(len(names), 5)], colors)
	if len(names) > 5 {
		c.Key(280, 390, names[5:], colors[5:])
	}
	a := c.NewAxes(500, 70, 430, 390, largest, "mean and standard deviation, µs")
	for i, s := range stages {
		x := a.Slot(i, len(stages))
		a.Bar(x, 0.6*a.W/float64(len(stages)), 0, s.Mean, plot.Color(i))
		a.Error(x, s.Mean-s.StdDev, s.Mean+s.StdDev)
		a.Label(x, s.name)
	}
	r.caption(c)
	return c
}

// drawHandshake compares one handshake, as both sides computed it, with the hops
// and the whole circuit.
func (r *Report) drawHandshake() *plot.Canvas {
	c := plot.New("One handshake, the hops, and the whole circuit")
	var client, relay, both, hop, hops []float64
	for i := range r.Samples {
		all := 0.0
		for _, h := range r.Samples[i].Hops {
			client, relay, both = append(client, h.Crypto), append(relay, h.RelayCrypto), append(both, h.Crypto+h.RelayCrypto)
			hop = append(hop, h.Wall)
			all += h.Wall
		}
		hops = append(hops, all)
	}
	bars := []struct {
		name   string
		values []float64
	}{
		{"one handshake, client", client}, {"one handshake, relay", relay}, {"one handshake, both", both},
		{"one hop", hop}, {"all hops", hops}, {"circuit", totals(r.Samples)},
	}
	if Describe(relay).Max == 0 { // the relays are not ours
		bars = slices.Delete(bars, 1, 3)
	}
	var boxes []plot.Box
	largest := 0.0
	for _, b := range bars {
		boxes = append(boxes, plot.NewBox(slices.Sorted(slices.Values(b.values))))
		largest = max(largest, boxes[len(boxes)-1].Q3)
	}
	a := c.NewAxes(90, 70, 840, 390, largest*1.06, "median and quartiles, µs")
	for i, b := range boxes {
		x := a.Slot(i, len(bars))
		a.Bar(x, 0.55*a.W/float64(len(bars)), 0, b.Median, plot.Color(i))
		a.Error(x, b.Q1, b.Q3)
		a.Text(x, a.At(b.Q3)-7, 12, plot.Center, plot.Number(b.Median), plot.Black)
		a.Label(x, bars[i].name)
	}
	r.caption(c)
	return c
}

func (r *Report) drawDistribution() *plot.Canvas {
	c := plot.New("Distribution of the stages' times")
	stages := append(r.shorts(), short{"total", Describe(totals(r.Samples)), slices.Sorted(slices.Values(totals(r.Samples)))})
	// The scale leaves the worst percent out; the number of these values is
	// written above.
	largest := 0.0
	for _, s := range stages {
		largest = max(largest, s.P99)
	}
	a := c.NewAxes(90, 80, 840, 380, largest, "time, µs")
	for i, s := range stages {
		x := a.Slot(i, len(stages))
		a.Box(x, 0.4*a.W/float64(len(stages)), plot.NewBox(s.sorted), plot.Color(i))
		a.Label(x, s.name)
	}
	r.caption(c)
	return c
}

// drawCrypto stacks each hop's processor time by purpose, next to the elapsed
// time.
func (r *Report) drawCrypto() *plot.Canvas {
	c := plot.New("Where a hop's time goes")
	n := len(r.Samples[0].Hops)
	type hop struct{ wall, client, relay, otherClient, otherRelays float64 }
	all := make([]hop, n)
	walls := make([][]float64, n)
	for k := range r.Samples {
		for i, h := range r.Samples[k].Hops {
			m := float64(len(r.Samples))
			walls[i] = append(walls[i], h.Wall)
			// The client's computation while it waited for this hop.
			crypto := h.Crypto - h.Ahead
			if i+1 < n {
				crypto += r.Samples[k].Hops[i+1].Ahead
			}
			all[i].client += crypto / m
			all[i].relay += h.RelayCrypto / m
			all[i].otherClient += (h.ClientCPU - crypto) / m
			for _, v := range h.RelayCPU {
				all[i].otherRelays += v / m
			}
		}
	}
	largest := 0.0
	for i := range all {
		h := &all[i]
		h.wall = Describe(walls[i]).Mean
		h.otherClient, h.otherRelays = max(h.otherClient, 0), max(h.otherRelays-h.relay, 0)
		largest = max(largest, h.wall, h.client+h.relay+h.otherClient+h.otherRelays)
	}
	a := c.NewAxes(90, 70, 600, 390, largest*1.03, "mean, µs")
	colors := []color.RGBA{plot.Color(8), plot.Color(0), plot.Color(4), plot.Color(1), plot.Color(3)}
	for i, h := range all {
		x, w := a.Slot(i, n), 0.3*a.W/float64(n)
		a.Bar(x-w*0.6, w, 0, h.wall, colors[0])
		from := 0.0
		for k, v := range []float64{h.client, h.relay, h.otherClient, h.otherRelays} {
			a.Bar(x+w*0.6, w, from, from+v, colors[k+1])
			from += v
		}
		a.Label(x, fmt.Sprintf("hop %d", i+1))
	}
	whose := "all"
	names := []string{"time that passed", "client: handshake", "relay: handshake", "client: TLS, cells, system", "relays: TLS, cells, system"}
	switch cpu, handshakes := r.RelaysKnown(); {
	case !handshakes:
		whose, names, colors = "the client's", []string{names[0], names[1], names[3]}, []color.RGBA{colors[0], colors[1], colors[3]}
	case !cpu:
		names[3] = "all: TLS, cells, system"
		names, colors = names[:4], colors[:4]
	}
	c.Key(712, 120, names, colors)
	for i, s := range []string{"Left: the clock on the wall.", "Right: processor time of " + whose, "processes, by the kernel's count;", "it overlaps on several cores.", "Handshakes: by the clock of", "who computes them; the client", "makes the next hop's onionskin", "while it waits for an answer."} {
		c.Text(712, 250+float64(i)*17, 12, plot.Left, s, plot.Grey)
	}
	r.caption(c)
	return c
}

func (r *Report) drawSummary() *plot.Canvas {
	c := plot.New("Summary")
	rows := [][]string{{"µs", "mean", "median", "min", "max", "std. dev.", "95 %", "99 %", "share", "client CPU", "relays' CPU", "client h.", "relay h."}}
	total := Describe(totals(r.Samples))
	line := func(name string, s Stats, rest ...string) {
		row := []string{name}
		for _, v := range []float64{s.Mean, s.Median, s.Min, s.Max, s.StdDev, s.P95, s.P99} {
			row = append(row, plot.Number(v))
		}
		rows = append(rows, append(row, rest...))
	}
	cpu, handshakes := r.RelaysKnown()
	known := [4]bool{true, cpu, true, handshakes}
	cells := func(v [4]float64) (out []string) {
		for i := range v {
			if known[i] {
				out = append(out, plot.Number(v[i]))
			} else {
				out = append(out, "-")
			}
		}
		return out
	}
	var sums [4]float64 // processor time of client and relays, handshakes of each
	for i, s := range r.shorts() {
		var means [4]float64
		for k := range r.Samples {
			st, n := r.Samples[k].stage(i), float64(len(r.Samples))
			means[0] += st.ClientCPU / n
			for _, v := range st.RelayCPU {
				means[1] += v / n
			}
			means[2] += st.Crypto / n
			means[3] += st.RelayCrypto / n
		}
		for j, v := range means {
			sums[j] += v
		}
		line(s.name, s.Stats, append([]string{fmt.Sprintf("%.1f %%", 100*s.Mean/total.Mean)}, cells(means)...)...)
	}
	line("total", total, append([]string{"100 %"}, cells(sums)...)...)
	c.Table(20, 60, 920, 28, []float64{1.1, 0.9, 0.9, 0.9, 0.9, 1, 0.9, 0.9, 0.9, 1.15, 1.25, 1, 1}, rows)
	y := 60 + 28*float64(len(rows)) + 40
	for i, s := range []string{
		fmt.Sprintf("%d of %d circuits succeeded: %.2f %%", len(r.Samples), r.Count, r.SuccessRate),
		fmt.Sprintf("%s, carriage %s; directory %s; %s", r.Handshake, r.Carriage, r.Directory, relaysInWords[r.Relays]),
		"CPU: mean processor time by the kernel's count; h.: what one side computes for a hop's handshake, mean, by its own clock",
		fmt.Sprintf("%s, %d cores, %s/%s, %s; load %s", r.Machine.CPU, r.Machine.Cores, r.Machine.OS, r.Machine.Arch, r.Machine.Go, r.Machine.Load),
	} {
		c.Text(38, y+float64(i)*20, 12, plot.Left, s, plot.Black)
	}
	return c
}

func (r *Report) drawLengths() *plot.Canvas {
	c := plot.New("Circuits of one to eight hops")
	names := []string{"95 %", "mean", "median", "min"}
	colors := []color.RGBA{plot.Color(3), plot.Color(1), plot.Color(0), plot.Color(2)}
	lines := make([][]float64, len(names))
	largest := 0.0
	var stats []Stats
	for _, l := range r.Lengths {
		s := Describe(totals(l.Samples))
		stats = append(stats, s)
		largest = max(largest, s.P95, s.Mean)
	}
	a := c.NewAxes(90, 70, 840, 380, largest, "time to build a circuit, µs")
	c.Text(510, 490, 12, plot.Center, "hops", plot.Black)
	for i, s := range stats {
		x := a.Slot(i, len(stats))
		for k, v := range []float64{s.P95, s.Mean, s.Median, s.Min} {
			lines[k] = append(lines[k], x, a.At(v))
		}
		a.Label(x, fmt.Sprintf("%d", r.Lengths[i].Hops))
	}
	for k, xy := range lines {
		c.Line(colors[k], 2, xy...)
		for i := 0; i < len(xy); i += 2 {
			c.Dot(xy[i], xy[i+1], 3.5, colors[k])
		}
	}
	c.Key(120, 100, names, colors)
	c.Text(plot.Width/2, plot.Height-14, 11, plot.Center, fmt.Sprintf("%d circuits of each length, %s, directory %s, %s on %s (%d cores)",
		len(r.Lengths[0].Samples), r.Handshake, r.Directory, relaysInWords[r.Relays], r.Machine.CPU, r.Machine.Cores), plot.Grey)
	return c
}
