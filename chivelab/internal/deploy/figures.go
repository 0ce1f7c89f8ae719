package deploy

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	figure "github.com/chivenet/chive/chivelab/plot"
	"github.com/chivenet/chive/internal/fault"
)

// lines says what a figure of metrics shows: one line for each node that has the metric, over all of its labels.
type lines struct {
	name, label string
	metric      string
	rate        bool // the metric is a counter: show what it grows by in a second
	scale       float64
}

// figuresOfMetrics are drawn of each run.
var figuresOfMetrics = []lines{
	{"link-bytes", "Sent on links (kB a second)", "chive_relay_link_out_bytes_total", true, 1e-3},
	{"cells", "Cells sent (a second)", "chive_relay_cells_out_total", true, 1},
	{"circuits", "Circuits measured (a second)", "deploy_circuits_total", true, 1},
	{"heap", "Heap of a relay (MB)", "chive_relay_heap_bytes", false, 1e-6},
	{"up", "Answers to the monitor (1: yes)", upMetric, false, 1},
}

// Draw draws the figures of a run's results from their files: what the monitor saw, and how long circuits took. It
// returns the names of the figures.
func Draw(dir string) (names []string, err error) {
	rows, err := readRows(filepath.Join(dir, MetricsName), len(metricsHead))
	if err != nil {
		return nil, err
	}
	save := func(name string, p *plot.Plot) error {
		for _, ending := range []string{"svg", "png", "pdf"} {
			if err := p.Save(9*vg.Inch, 5*vg.Inch, filepath.Join(dir, name+"."+ending)); err != nil {
				return fault.New(fault.Local, "figure %s: %w", name, err)
			}
		}
		names = append(names, name)
		return nil
	}
	for _, f := range figuresOfMetrics {
		p, err := f.draw(rows)
		if err == nil && p != nil {
			err = save(f.name, p)
		}
		if err != nil {
			return names, err
		}
	}
	samples, err := readRows(filepath.Join(dir, SamplesName), 4)
	if err != nil {
		return names, err
	}
	p, err := boxes(samples)
	if err == nil && p != nil {
		err = save("build", p)
	}
	return names, err
}

// readRows reads a table, with so many columns at least, without its head.
func readRows(name string, columns int) ([][]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fault.New(fault.Config, "%s: %w", name, err)
	}
	if len(rows) == 0 || len(rows[0]) < columns {
		return nil, fault.New(fault.Config, "%s: it has no head of %d columns", name, columns)
	}
	return rows[1:], nil
}

// draw draws a metric; nil: no node has it.
func (l lines) draw(rows [][]string) (*plot.Plot, error) {
	series, nodes, err := l.series(rows)
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "Seconds", l.label
	p.Y.Min, p.Legend.Top = 0, true
	for i, n := range nodes {
		line, err := plotter.NewLine(series[n])
		if err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
		line.Color = figure.Color(i)
		p.Add(line)
		p.Legend.Add(n, line)
	}
	return p, nil
}

// series are a metric's values of each node. A rate has no value at the first look, nor after a restart.
func (l lines) series(rows [][]string) (series map[string]plotter.XYs, nodes []string, err error) {
	sums := map[string]plotter.XYs{}
	for _, r := range rows {
		name, _, _ := strings.Cut(r[2], "{")
		if name != l.metric {
			continue
		}
		at, err1 := strconv.ParseFloat(r[0], 64)
		value, err2 := strconv.ParseFloat(r[3], 64)
		if err1 != nil || err2 != nil {
			return nil, nil, fault.New(fault.Config, "%s: %q at %q is no number", MetricsName, r[3], r[0])
		}
		points := sums[r[1]]
		if n := len(points); n > 0 && points[n-1].X == at { // another label
			points[n-1].Y += value
			continue
		}
		sums[r[1]] = append(points, plotter.XY{X: at, Y: value})
	}
	series = map[string]plotter.XYs{}
	for node, points := range sums {
		var out plotter.XYs
		for i, v := range points {
			switch {
			case !l.rate:
				out = append(out, plotter.XY{X: v.X, Y: v.Y * l.scale})
			case i > 0 && v.Y >= points[i-1].Y:
				out = append(out, plotter.XY{X: v.X, Y: (v.Y - points[i-1].Y) / (v.X - points[i-1].X) * l.scale})
			}
		}
		if len(out) > 0 {
			series[node], nodes = out, append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return series, nodes, nil
}

// boxes are the times of circuits, by handshake; nil: none was built.
func boxes(samples [][]string) (*plot.Plot, error) {
	values := map[string]plotter.Values{}
	var names []string
	for i, r := range samples {
		if r[2] != "" {
			continue // it failed
		}
		v, err := strconv.ParseFloat(r[3], 64)
		if err != nil {
			return nil, fault.New(fault.Config, "%s:%d: %q is no time", SamplesName, i+2, r[3])
		}
		if values[r[1]] == nil {
			names = append(names, r[1])
		}
		values[r[1]] = append(values[r[1]], v)
	}
	if len(names) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = fmt.Sprintf("%d circuits", len(samples)), "Time to build a circuit (ms)"
	p.Y.Min = 0
	for i, n := range names {
		b, err := plotter.NewBoxPlot(vg.Points(30), float64(i), values[n])
		if err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
		b.FillColor = figure.Color(i)
		p.Add(b)
	}
	p.NominalX(names...)
	return p, nil
}
