package ftebench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"

	"github.com/chivenet/chive/internal/fault"
)

// Plot writes the report's curves as PNG files into a directory, which it
// makes: throughput.png, upload by number of connections with the bare
// machine's; perconn.png, the same for one of the connections; proxied.png and
// download.png, without the bare machine, whose curve dwarfs the others; and
// iperf-raw.png and iperf-proxied.png, the report's two curves, if iperf ran.
func (r *Report) Plot(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fault.New(fault.Local, "plots: %w", err)
	}
	whole := func(p Point) float64 { return p.Up }
	iperf := func(p Point) float64 { return p.Iperf }
	for _, c := range []struct {
		file, y string
		raw     bool
		pairs   bool
		value   func(Point) float64
	}{
		{"throughput.png", "upload, Mbit/s", true, true, whole},
		{"perconn.png", "upload of one connection, Mbit/s", true, true, func(p Point) float64 { return p.Up / float64(p.Connections) }},
		{"proxied.png", "upload, Mbit/s", false, true, whole},
		{"download.png", "download, Mbit/s", false, true, func(p Point) float64 { return p.Down }},
		{"iperf-raw.png", "iperf without a proxy, Mbit/s", true, false, iperf},
		{"iperf-proxied.png", "iperf through the proxies, Mbit/s", false, true, iperf},
	} {
		if c.value(Point{Up: 1, Down: 1, Connections: 1}) == 0 && (len(r.Raw) == 0 || r.Raw[0].Iperf == 0) {
			continue // iperf did not run
		}
		var series []chart.Series
		if c.raw {
			series = append(series, curve("raw", 0, r.Raw, c.value))
		}
		for i, p := range r.Pairs {
			if c.pairs && len(p.Points) > 0 {
				series = append(series, curve(strings.TrimSpace(p.Kind+" "+p.Format), i+1, p.Points, c.value))
			}
		}
		// One point makes no curve.
		if len(series) == 0 || len(r.Raw) < 2 {
			continue
		}
		if err := draw(filepath.Join(dir, c.file), c.y, series); err != nil {
			return err
		}
	}
	return nil
}

// colors tell curves apart, in this order and then again with dashes.
var colors = []string{"000000", "1f77b4", "ff7f0e", "2ca02c", "d62728", "9467bd", "8c564b", "e377c2", "7f7f7f", "bcbd22", "17becf"}

// curve is line number i of a plot.
func curve(name string, i int, points []Point, value func(Point) float64) chart.Series {
	color := drawing.ColorFromHex(colors[i%len(colors)])
	s := chart.ContinuousSeries{Name: name, Style: chart.Style{StrokeWidth: 2, DotWidth: 3, StrokeColor: color, DotColor: color}}
	if i >= len(colors) {
		s.Style.StrokeDashArray = []float64{6, 3}
	}
	for _, p := range points {
		s.XValues = append(s.XValues, float64(p.Connections))
		s.YValues = append(s.YValues, value(p))
	}
	return s
}

// draw writes one plot.
func draw(path, y string, series []chart.Series) error {
	label := func(v any) string { return fmt.Sprintf("%.0f", v) }
	top := 0.0
	var ticks []chart.Tick
	for _, x := range series[0].(chart.ContinuousSeries).XValues {
		ticks = append(ticks, chart.Tick{Value: x, Label: label(x)})
	}
	for _, s := range series {
		for _, v := range s.(chart.ContinuousSeries).YValues {
			top = max(top, v)
		}
	}
	g := chart.Chart{
		Width: 1000, Height: 600,
		Background: chart.Style{Padding: chart.Box{Top: 20, Left: 220, Right: 20, Bottom: 20}},
		XAxis:      chart.XAxis{Name: "connections", Ticks: ticks},
		YAxis:      chart.YAxis{Name: y, ValueFormatter: label, Range: &chart.ContinuousRange{Min: 0, Max: top * 1.05}},
		Series:     series,
	}
	g.Elements = []chart.Renderable{chart.LegendLeft(&g)}
	f, err := os.Create(path)
	if err != nil {
		return fault.New(fault.Local, "plot: %w", err)
	}
	if err := g.Render(chart.PNG, f); err != nil {
		f.Close()
		return fault.New(fault.Local, "plot %s: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return fault.New(fault.Local, "plot: %w", err)
	}
	return nil
}
