package ftebench

import (
	"fmt"
	"image/color"
	"os"
	"strings"

	"github.com/chivenet/chive/chivelab/plot"
	"github.com/chivenet/chive/internal/fault"
)

// figure is one of the report's figures: a value by number of connections.
type figure struct {
	file, title, y string
	raw, pairs     bool // whose curves: the bare machine's, the pairs of proxies'
	value          func(Point) float64
}

var figures = []figure{
	{"throughput", "Upload, through proxies and without", "Mbit/s", true, true, func(p Point) float64 { return p.Up }},
	{"perconn", "Upload of each connection, through proxies", "Mbit/s", false, true, func(p Point) float64 { return p.Up / float64(p.Connections) }},
	{"proxied", "Upload through proxies", "Mbit/s", false, true, func(p Point) float64 { return p.Up }},
	{"download", "Download through proxies", "Mbit/s", false, true, func(p Point) float64 { return p.Down }},
	{"memory", "Memory of the server under load", "10^6 bytes", false, true, func(p Point) float64 { return p.ServerRSS }},
	{"iperf-raw", "iperf without a proxy", "Mbit/s", true, false, func(p Point) float64 { return p.Iperf }},
	{"iperf-proxied", "iperf through proxies", "Mbit/s", false, true, func(p Point) float64 { return p.Iperf }},
}

// Plot writes the report's curves as PNG, PDF and SVG files into a directory, which
// it makes: throughput, with the bare machine's curve, which dwarfs the others;
// proxied, perconn, download and memory without it; and iperf-raw and
// iperf-proxied, the two curves of "How many users can an fteproxy server
// serve?", if iperf ran. One point makes no curve, and no file.
func (r *Report) Plot(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fault.New(fault.Local, "plots: %w", err)
	}
	if len(r.Raw) < 2 {
		return nil
	}
	for _, f := range figures {
		if strings.HasPrefix(f.file, "iperf") && r.Raw[0].Iperf == 0 {
			continue
		}
		if c := r.draw(f); c != nil {
			if err := c.Save(dir, f.file); err != nil {
				return err
			}
		}
	}
	return nil
}

// draw draws one figure, or nothing if it has no curve.
func (r *Report) draw(f figure) *plot.Canvas {
	type curve struct {
		name   string
		points []Point
		color  color.RGBA
	}
	var curves []curve
	if f.raw {
		curves = append(curves, curve{"no proxy", r.Raw, plot.Black})
	}
	for i, p := range r.Pairs {
		if f.pairs && len(p.Points) > 0 {
			curves = append(curves, curve{strings.TrimSpace(p.Kind + " " + p.Format), p.Points, plot.Color(i)})
		}
	}
	if len(curves) == 0 {
		return nil
	}
	top := 0.0
	var names []string
	var colors []color.RGBA
	for _, c := range curves {
		for _, p := range c.points {
			top = max(top, f.value(p))
		}
		names, colors = append(names, c.name), append(colors, c.color)
	}
	c := plot.New(f.title)
	a := c.NewAxes(90, 60, 640, 400, top, f.y)
	at := func(p Point) float64 {
		return a.X + a.W*float64(p.Connections)/float64(r.Raw[len(r.Raw)-1].Connections)
	}
	labelled := a.X - 40
	for _, p := range r.Raw {
		if x := at(p); x >= labelled+24 { // wide enough for a number
			a.Label(x, fmt.Sprint(p.Connections))
			labelled = x
		}
	}
	c.Text(a.X+a.W/2, a.Y+a.H+38, 12, plot.Center, "connections", plot.Black)
	for _, cv := range curves {
		var xy []float64
		for _, p := range cv.points {
			xy = append(xy, at(p), a.At(f.value(p)))
		}
		c.Line(cv.color, 1.8, xy...)
		for i := 0; i < len(xy); i += 2 {
			c.Dot(xy[i], xy[i+1], 3, cv.color)
		}
	}
	c.Key(a.X+a.W+22, a.Y+14, names, colors)
	c.Text(plot.Width/2, plot.Height-14, 11, plot.Center,
		fmt.Sprintf("%g s each, %d cores for both proxies and the load, %s", r.Seconds, r.Cores, r.Arch), plot.Grey)
	return c
}
