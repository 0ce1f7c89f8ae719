package plot

import (
	"image/color"
	"math"
	"strconv"
)

// Axes is a rectangle of a figure with a scale on its left side, from zero to
// the largest value.
type Axes struct {
	*Canvas
	X, Y, W, H float64
	Max        float64
}

// NewAxes draws a frame with horizontal lines at round values.
func (c *Canvas) NewAxes(x, y, w, h, largest float64, label string) *Axes {
	step, top := ticks(largest)
	a := &Axes{c, x, y, w, h, top}
	for v := 0.0; v <= top*1.0001; v += step {
		c.Line(Light, 0.7, x, a.At(v), x+w, a.At(v))
		c.Text(x-6, a.At(v)+4, 11, Right, strconv.FormatFloat(v, 'f', -1, 64), Black)
	}
	c.Line(Black, 1, x, y, x, y+h, x+w, y+h)
	c.TextUp(x-52, y+h/2, 12, label, Black)
	return a
}

// ticks returns a round step and a multiple of it that is not less than the
// largest value.
func ticks(largest float64) (step, top float64) {
	if !(largest > 0) || math.IsInf(largest, 1) {
		return 1, 1
	}
	step = math.Pow(10, math.Floor(math.Log10(largest)))
	for _, f := range []float64{0.1, 0.2, 0.5, 1, 2} {
		if largest/(step*f) <= 7 {
			step *= f
			break
		}
	}
	return step, math.Ceil(largest/step-1e-9) * step
}

// At returns where a value is.
func (a *Axes) At(v float64) float64 { return a.Y + a.H - a.H*math.Min(v, a.Max)/a.Max }

// Slot returns the middle of the i-th of n places along the bottom.
func (a *Axes) Slot(i, n int) float64 { return a.X + a.W*(float64(i)+0.5)/float64(n) }

// Label writes below a place.
func (a *Axes) Label(x float64, s string) { a.Text(x, a.Y+a.H+18, 12, Center, s, Black) }

// Bar draws a bar between two values.
func (a *Axes) Bar(x, width, from, to float64, fill color.RGBA) {
	a.Rect(x-width/2, a.At(to), width, a.At(from)-a.At(to), fill)
}

// Error draws an error bar.
func (a *Axes) Error(x, from, to float64) {
	from = math.Max(from, 0)
	a.Line(Black, 1.2, x, a.At(from), x, a.At(to))
	a.Line(Black, 1.2, x-5, a.At(to), x+5, a.At(to))
	a.Line(Black, 1.2, x-5, a.At(from), x+5, a.At(from))
}

// Box is a box plot's five numbers and its outliers.
type Box struct {
	Low, Q1, Median, Q3, High float64
	Beyond                    []float64
}

// NewBox summarizes sorted values: the whiskers reach the farthest values
// within one and a half times the box's height (Tukey).
func NewBox(sorted []float64) Box {
	if len(sorted) == 0 {
		return Box{}
	}
	q := func(f float64) float64 {
		at := f * float64(len(sorted)-1)
		i := int(at)
		if i+1 >= len(sorted) {
			return sorted[len(sorted)-1]
		}
		return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
	}
	b := Box{Q1: q(0.25), Median: q(0.5), Q3: q(0.75)}
	b.Low, b.High = b.Q1, b.Q3
	reach := 1.5 * (b.Q3 - b.Q1)
	for _, v := range sorted {
		switch {
		case v < b.Q1-reach || v > b.Q3+reach:
			b.Beyond = append(b.Beyond, v)
		default:
			b.Low, b.High = math.Min(b.Low, v), math.Max(b.High, v)
		}
	}
	return b
}

// Box draws a box plot. Above the scale it writes the number of values that do
// not fit.
func (a *Axes) Box(x, width float64, b Box, fill color.RGBA) {
	a.Line(Black, 1, x, a.At(b.Low), x, a.At(b.High))
	for _, v := range []float64{b.Low, b.High} {
		a.Line(Black, 1, x-width/4, a.At(v), x+width/4, a.At(v))
	}
	a.Bar(x, width, b.Q1, b.Q3, fill)
	a.Line(Black, 2, x-width/2, a.At(b.Median), x+width/2, a.At(b.Median))
	over := 0
	for _, v := range b.Beyond {
		if v > a.Max {
			over++
			continue
		}
		a.Dot(x, a.At(v), 1.6, Grey)
	}
	if over > 0 {
		a.Text(x, a.Y-4, 10, Center, strconv.Itoa(over)+" above", Grey)
	}
}

// Key draws the meanings of colors, from (x, y) downward.
func (c *Canvas) Key(x, y float64, names []string, colors []color.RGBA) {
	for i, n := range names {
		c.Rect(x, y+float64(i)*18-9, 11, 11, colors[i])
		c.Text(x+17, y+float64(i)*18, 12, Left, n, Black)
	}
}

// Table draws rows of cells; the first row is the head. Widths are shares.
func (c *Canvas) Table(x, y, w, rowHeight float64, shares []float64, rows [][]string) {
	sum := 0.0
	for _, s := range shares {
		sum += s
	}
	for i, row := range rows {
		top := y + float64(i)*rowHeight
		if i == 0 {
			c.Rect(x, top, w, rowHeight, Colors[0])
		} else if i%2 == 0 {
			c.Rect(x, top, w, rowHeight, color.RGBA{240, 244, 248, 255})
		}
		at := x
		for k, cell := range row {
			cw := w * shares[k] / sum
			col, align, px := Black, Right, at+cw-8
			if i == 0 {
				col = White
			}
			if k == 0 {
				align, px = Left, at+8
			}
			c.Text(px, top+rowHeight*0.68, 12, align, cell, col)
			at += cw
		}
	}
	c.Line(Grey, 0.7, x, y, x+w, y, x+w, y+float64(len(rows))*rowHeight, x, y+float64(len(rows))*rowHeight, x, y)
}
