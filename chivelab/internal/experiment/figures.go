package experiment

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/chivenet/chive/internal/fault"
)

// formats of each figure.
var formats = []string{"svg", "png", "pdf"}

// colors can be told apart by people who do not see all of them (Okabe and Ito).
var colors = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{230, 159, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{204, 121, 167, 255},
	color.RGBA{86, 180, 233, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{240, 228, 66, 255}, color.RGBA{100, 100, 100, 255},
}

func colorOf(i int) color.Color { return colors[i%len(colors)] }

// Figures draws all that experiments have samples for into a directory, and returns the names of the figures.
func Figures(reports []*Report, dir string) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	save := func(name string, p *plot.Plot, err error) error {
		if err != nil {
			return fault.New(fault.Local, "figure %s: %w", name, err)
		}
		if p == nil {
			return nil // there is nothing to draw
		}
		for _, f := range formats {
			if err := p.Save(9*vg.Inch, 5*vg.Inch, filepath.Join(dir, name+"."+f)); err != nil {
				return fault.New(fault.Local, "figure %s: %w", name, err)
			}
		}
		names = append(names, name)
		return nil
	}
	for _, r := range reports {
		short := strings.TrimSuffix(r.File, ending) + "-"
		for _, f := range []struct {
			name string
			draw func(*Report) (*plot.Plot, error)
		}{
			{"stages", stagesFigure}, {"build", boxes(KindCircuit, MeasureTotal, "Time to build a circuit (ms)")},
			{"round-trip", boxes(KindCircuit, measureTrip, "Round trip of a circuit (ms)")},
			{"first-byte", boxes(KindDownload, MeasureFirst, "Time to the first byte (ms)")},
			{"goodput", boxes(KindDownload, measureGoodput, "Goodput (Mbit/s)")},
			{"cost", costFigure},
		} {
			p, err := f.draw(r)
			if err := save(short+f.name, p, err); err != nil {
				return names, err
			}
		}
	}
	if len(reports) < 2 {
		return names, nil
	}
	for _, f := range []struct {
		name string
		draw func([]*Report) (*plot.Plot, error)
	}{
		{"topologies", heatFigure}, {"up-and-down", upDownFigure}, {"hops", hopsFigure},
		{"cost-by-rate", scatter("Rate of the link (Mbit/s)", func(l Link) float64 { return l.UpMbit })},
		{"cost-by-delay", scatter("Delay of the link, one way (ms)", func(l Link) float64 { return l.UpMS })},
		{"cost-by-loss", scatter("Loss of the link (%)", func(l Link) float64 { return 100 * l.UpLoss })},
	} {
		p, err := f.draw(reports)
		if err := save(f.name, p, err); err != nil {
			return names, err
		}
	}
	return names, nil
}

// counted are the groups of a kind that have this measure.
func (r *Report) counted(kind, measure string) (out []*Group) {
	for i := range r.Groups {
		if g := &r.Groups[i]; g.Kind == kind && len(g.values[measure]) > 0 {
			out = append(out, g)
		}
	}
	return out
}

func (r *Report) figure(y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = r.Title, y
	p.Y.Min = 0
	p.Legend.Top = true
	return p
}

func nominal(p *plot.Plot, groups []*Group) {
	var names []string
	for _, g := range groups {
		names = append(names, g.Handshake)
	}
	p.NominalX(names...)
}

// stagesFigure is how long each hop of a circuit takes, on average.
func stagesFigure(r *Report) (*plot.Plot, error) {
	groups := r.counted(KindCircuit, MeasureTotal)
	if len(groups) == 0 {
		return nil, nil
	}
	p := r.figure("Mean time to build a circuit, by stage (ms)")
	var below *plotter.BarChart
	for i := range r.Path {
		name := fmt.Sprintf("hop%d", i+1)
		var v plotter.Values
		for _, g := range groups {
			v = append(v, g.Measures[name].Mean)
		}
		bar, err := plotter.NewBarChart(v, vg.Points(35))
		if err != nil {
			return nil, err
		}
		bar.Color = colorOf(i)
		if below != nil {
			bar.StackOn(below)
		}
		p.Add(bar)
		p.Legend.Add(fmt.Sprintf("hop %d", i+1), bar)
		below = bar
	}
	nominal(p, groups)
	return p, nil
}

// boxes are a measure's distributions, by handshake.
func boxes(kind, measure, label string) func(*Report) (*plot.Plot, error) {
	return func(r *Report) (*plot.Plot, error) {
		groups := r.counted(kind, measure)
		if len(groups) == 0 {
			return nil, nil
		}
		p := r.figure(label)
		for i, g := range groups {
			b, err := plotter.NewBoxPlot(vg.Points(30), float64(i), plotter.Values(g.values[measure]))
			if err != nil {
				return nil, err
			}
			b.FillColor = colorOf(i)
			p.Add(b)
		}
		nominal(p, groups)
		return p, nil
	}
}

// points are values with intervals.
type points struct {
	plotter.XYs
	plotter.YErrors
}

func (p *points) add(x, y float64, ci Interval) {
	p.XYs = append(p.XYs, plotter.XY{X: x, Y: y})
	p.YErrors = append(p.YErrors, struct{ Low, High float64 }{y - ci.Low, ci.High - y})
}

// plot adds points with their intervals.
func (p *points) plot(to *plot.Plot, name string, i int, joined bool) error {
	dots, err := plotter.NewScatter(p.XYs)
	if err != nil {
		return err
	}
	dots.GlyphStyle = draw.GlyphStyle{Color: colorOf(i), Radius: vg.Points(3.5), Shape: draw.CircleGlyph{}}
	bars, err := plotter.NewYErrorBars(p)
	if err != nil {
		return err
	}
	bars.Color = colorOf(i)
	to.Add(dots, bars)
	if joined {
		l, err := plotter.NewLine(p.XYs)
		if err != nil {
			return err
		}
		l.Color = colorOf(i)
		to.Add(l)
	}
	if name != "" {
		to.Legend.Add(name, dots)
	}
	return nil
}

// costFigure compares handshakes with the first.
func costFigure(r *Report) (*plot.Plot, error) {
	var groups []*Group
	var pts points
	for _, g := range r.counted(KindCircuit, MeasureTotal) {
		if g.CostCI != nil {
			pts.add(float64(len(groups)), g.Cost, *g.CostCI)
			groups = append(groups, g)
		}
	}
	if len(groups) == 0 {
		return nil, nil
	}
	p := r.figure("Median time to build, as a ratio to " + r.Groups[0].Handshake)
	if err := pts.plot(p, "", 0, false); err != nil {
		return nil, err
	}
	nominal(p, groups)
	return p, nil
}

// handshakes are those that any of the reports has circuits of, in their order.
func handshakes(reports []*Report) (out []string) {
	for _, r := range reports {
		for _, g := range r.counted(KindCircuit, MeasureTotal) {
			if !slices.Contains(out, g.Handshake) {
				out = append(out, g.Handshake)
			}
		}
	}
	return out
}

// grid are medians by experiment and handshake, as logarithms.
type grid struct {
	reports []*Report
	names   []string
}

func (g grid) Dims() (int, int)   { return len(g.names), len(g.reports) }
func (g grid) X(c int) float64    { return float64(c) }
func (g grid) Y(r int) float64    { return float64(len(g.reports) - 1 - r) }
func (g grid) Z(c, r int) float64 { return math.Log(g.median(c, r)) }

func (g grid) median(c, r int) float64 {
	x := g.reports[r].group(KindCircuit, g.names[c])
	if x == nil || len(x.values[MeasureTotal]) == 0 {
		return math.NaN()
	}
	return x.Measures[MeasureTotal].Median
}

// heatFigure is the time to build a circuit by experiment and handshake.
func heatFigure(reports []*Report) (*plot.Plot, error) {
	g := grid{reports, handshakes(reports)}
	if len(g.names) < 2 {
		return nil, nil
	}
	p := plot.New()
	p.Title.Text = "Median time to build a circuit (ms)"
	heat := heatRows{g}
	h := plotter.NewHeatMap(heat, palette.Heat(16, 1))
	h.NaN = color.Gray{200}
	if !(h.Max > h.Min) {
		h.Max = h.Min + 1
	}
	p.Add(h)
	labels := plotter.XYLabels{}
	for r := range reports {
		for c := range g.names {
			if m := g.median(c, r); m == m {
				labels.XYs = append(labels.XYs, plotter.XY{X: g.X(c), Y: g.Y(r)})
				labels.Labels = append(labels.Labels, fmt.Sprintf("%.0f", m))
			}
		}
	}
	l, err := plotter.NewLabels(labels)
	if err != nil {
		return nil, err
	}
	for i := range l.TextStyle {
		l.TextStyle[i].XAlign, l.TextStyle[i].YAlign = draw.XCenter, draw.YCenter
	}
	p.Add(l)
	p.NominalX(g.names...)
	var rows []string
	for _, r := range slices.Backward(reports) {
		rows = append(rows, strings.TrimSuffix(r.File, ending))
	}
	p.NominalY(rows...)
	return p, nil
}

// heatRows is a grid with its rows upward, as plots want them.
type heatRows struct{ grid }

func (h heatRows) Y(r int) float64    { return float64(r) }
func (h heatRows) Z(c, r int) float64 { return h.grid.Z(c, len(h.reports)-1-r) }

// upDownFigure has the scenes of which the way up and the way down were measured beside each other.
func upDownFigure(reports []*Report) (*plot.Plot, error) {
	names := handshakes(reports)
	if len(names) == 0 {
		return nil, nil
	}
	var scenes []string
	values := map[string]plotter.Values{}
	for _, up := range reports {
		set, scene, ok := sceneOf(up, "-up")
		if !ok {
			continue
		}
		for _, down := range reports {
			if s, c, ok := sceneOf(down, "-down"); ok && s == set && c == scene {
				a, b := up.group(KindCircuit, names[0]), down.group(KindCircuit, names[0])
				if a != nil && b != nil && a.Refused == "" && b.Refused == "" {
					scenes = append(scenes, set+" "+scene)
					values["up"] = append(values["up"], a.Measures[MeasureTotal].Median)
					values["down"] = append(values["down"], b.Measures[MeasureTotal].Median)
				}
			}
		}
	}
	if len(scenes) == 0 {
		return nil, nil
	}
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = "The way up and the way down, "+names[0], "Median time to build a circuit (ms)"
	p.Legend.Top = true
	for i, way := range []string{"up", "down"} {
		bar, err := plotter.NewBarChart(values[way], vg.Points(12))
		if err != nil {
			return nil, err
		}
		bar.Color, bar.Offset = colorOf(i), vg.Points(12*float64(i)-6)
		p.Add(bar)
		p.Legend.Add(way, bar)
	}
	p.NominalX(scenes...)
	return p, nil
}

// sceneOf splits a name such as "h01-z1-up".
func sceneOf(r *Report, way string) (set, scene string, ok bool) {
	name, ok := strings.CutSuffix(strings.TrimSuffix(r.File, ending), way)
	if !ok || len(name) < 2 {
		return "", "", false
	}
	_, scene, ok = strings.Cut(name, "-")
	return name[:1], scene, ok
}

// hopsFigure is the time to build circuits by their length.
func hopsFigure(reports []*Report) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = "Circuits by their length", "Hops", "Median time to build a circuit (ms)"
	p.Legend.Top, p.Legend.Left, p.Y.Min = true, true, 0
	lengths := map[int]bool{}
	for i, name := range handshakes(reports) {
		var pts points
		for _, r := range reports {
			if g := r.group(KindCircuit, name); g != nil && len(g.values[MeasureTotal]) > 0 {
				lengths[len(r.Path)] = true
				s := g.Measures[MeasureTotal]
				pts.add(float64(len(r.Path)), s.Median, s.MedianCI)
			}
		}
		if err := pts.plot(p, name, i, true); err != nil {
			return nil, err
		}
	}
	if len(lengths) < 2 {
		return nil, nil
	}
	return p, nil
}

// scatter has what handshakes cost by something of the links.
func scatter(label string, of func(Link) float64) func([]*Report) (*plot.Plot, error) {
	return func(reports []*Report) (*plot.Plot, error) {
		p := plot.New()
		p.Title.Text, p.X.Label.Text, p.Y.Label.Text = "Cost of the handshakes", label, "Median time to build, as a ratio to the first"
		p.Legend.Top, p.Y.Min = true, 0
		some := false
		for i, name := range handshakes(reports) {
			var pts points
			for _, r := range reports {
				if g := r.group(KindCircuit, name); g != nil && g.CostCI != nil && len(r.Links) == 1 {
					pts.add(of(r.Links[0]), g.Cost, *g.CostCI)
				}
			}
			if len(pts.XYs) == 0 {
				continue
			}
			some = true
			if err := pts.plot(p, name, i, false); err != nil {
				return nil, err
			}
		}
		if !some {
			return nil, nil
		}
		return p, nil
	}
}
