// Package plot draws figures of measurements, the same into PNG, PDF and SVG.
package plot

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"

	"codeberg.org/go-pdf/fpdf"
	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
	"github.com/wcharczuk/go-chart/v2/roboto"

	"github.com/chivenet/chive/internal/fault"
)

// Size of every figure, in points, and pixels to a point in PNG.
const (
	Width, Height = 960.0, 540.0
	scale         = 1.5
)

// Colors that colour-blind people can tell apart, too (Okabe and Ito).
var (
	Black  = color.RGBA{0, 0, 0, 255}
	Grey   = color.RGBA{110, 110, 110, 255}
	Light  = color.RGBA{222, 222, 222, 255}
	White  = color.RGBA{255, 255, 255, 255}
	Colors = []color.RGBA{{0, 114, 178, 255}, {230, 159, 0, 255}, {0, 158, 115, 255}, {213, 94, 0, 255}, {86, 180, 233, 255}, {204, 121, 167, 255}, {240, 228, 66, 255}, {148, 103, 72, 255}, {127, 127, 127, 255}}
)

// Color returns the i-th color, and begins again after the last.
func Color(i int) color.RGBA { return Colors[i%len(Colors)] }

// Align says which end of a text its position is.
type Align uint8

// The alignments.
const (
	Left Align = iota
	Center
	Right
)

// Canvas is one figure. Coordinates are points from the upper left corner;
// sizes of text are points too.
type Canvas struct {
	img *image.RGBA
	gc  *drawing.RasterGraphicContext
	pdf *fpdf.Fpdf
	svg svg
	err error
}

// New returns an empty figure with a title.
func New(title string) *Canvas {
	c := &Canvas{img: image.NewRGBA(image.Rect(0, 0, Width*scale, Height*scale))}
	font, err := chart.GetDefaultFont()
	if err != nil {
		c.err = fault.New(fault.Local, "plot: %w", err)
		return c
	}
	if c.gc, err = drawing.NewRasterGraphicContext(c.img); err != nil {
		c.err = fault.New(fault.Local, "plot: %w", err)
		return c
	}
	c.gc.SetDPI(72)
	c.gc.SetFont(font)
	c.pdf = fpdf.NewCustom(&fpdf.InitType{UnitStr: "pt", Size: fpdf.SizeType{Wd: Width, Ht: Height}})
	c.pdf.SetCompression(true)
	c.pdf.AddUTF8FontFromBytes("roboto", "", roboto.Roboto)
	c.pdf.SetAutoPageBreak(false, 0)
	c.pdf.AddPage()
	c.Rect(0, 0, Width, Height, White)
	c.Text(Width/2, 30, 18, Center, title, Black)
	return c
}

// Polygon fills a closed shape of points x0, y0, x1, y1, ...
func (c *Canvas) Polygon(fill color.RGBA, xy ...float64) {
	if c.err != nil {
		return
	}
	var pts []fpdf.PointType
	for i := 0; i+1 < len(xy); i += 2 {
		pts = append(pts, fpdf.PointType{X: xy[i], Y: xy[i+1]})
		if i == 0 {
			c.gc.MoveTo(xy[0]*scale, xy[1]*scale)
		} else {
			c.gc.LineTo(xy[i]*scale, xy[i+1]*scale)
		}
	}
	c.gc.Close()
	c.gc.SetFillColor(fill)
	c.gc.Fill()
	c.pdf.SetFillColor(int(fill.R), int(fill.G), int(fill.B))
	c.pdf.Polygon(pts, "F")
	c.svg.polygon(fill, xy)
}

// Rect fills a rectangle.
func (c *Canvas) Rect(x, y, w, h float64, fill color.RGBA) {
	c.Polygon(fill, x, y, x+w, y, x+w, y+h, x, y+h)
}

// Line draws a line through points x0, y0, x1, y1, ...
func (c *Canvas) Line(stroke color.RGBA, width float64, xy ...float64) {
	if c.err != nil {
		return
	}
	c.pdf.SetDrawColor(int(stroke.R), int(stroke.G), int(stroke.B))
	c.pdf.SetLineWidth(width)
	for i := 0; i+1 < len(xy); i += 2 {
		if i == 0 {
			c.gc.MoveTo(xy[0]*scale, xy[1]*scale)
			c.pdf.MoveTo(xy[0], xy[1])
		} else {
			c.gc.LineTo(xy[i]*scale, xy[i+1]*scale)
			c.pdf.LineTo(xy[i], xy[i+1])
		}
	}
	c.gc.SetStrokeColor(stroke)
	c.gc.SetLineWidth(width * scale)
	c.gc.Stroke()
	c.pdf.DrawPath("D")
	c.svg.line(stroke, width, xy)
}

// Dot fills a circle.
func (c *Canvas) Dot(x, y, r float64, fill color.RGBA) { c.Wedge(x, y, r, 0, 2*math.Pi, fill) }

// Wedge fills a sector between two angles, clockwise from twelve o'clock.
func (c *Canvas) Wedge(x, y, r, from, to float64, fill color.RGBA) {
	var xy []float64
	if to-from < 2*math.Pi {
		xy = append(xy, x, y)
	}
	n := max(12, int((to-from)*24))
	for i := range n + 1 {
		a := from + (to-from)*float64(i)/float64(n)
		xy = append(xy, x+r*math.Sin(a), y-r*math.Cos(a))
	}
	c.Polygon(fill, xy...)
}

// TextWidth returns how wide a text is.
func (c *Canvas) TextWidth(size float64, s string) float64 {
	if c.err != nil {
		return 0
	}
	c.pdf.SetFont("roboto", "", size)
	return c.pdf.GetStringWidth(s)
}

// Text writes a line whose baseline is at y.
func (c *Canvas) Text(x, y, size float64, align Align, s string, col color.RGBA) {
	if c.err != nil {
		return
	}
	c.svg.text(x, y, size, align, s, col)
	c.gc.SetFontSize(size * scale)
	c.gc.SetFillColor(col)
	// The two renderers space letters a little differently.
	left, _, right, _, err := c.gc.GetStringBounds(s)
	if err == nil {
		_, err = c.gc.CreateStringPath(s, x*scale-(right-left)*float64(align)/2, y*scale)
	}
	x -= c.TextWidth(size, s) * float64(align) / 2
	if err != nil {
		c.err = fault.New(fault.Local, "plot: %w", err)
		return
	}
	c.gc.Fill()
	c.pdf.SetTextColor(int(col.R), int(col.G), int(col.B))
	c.pdf.Text(x, y, s)
}

// TextUp writes a line that runs upward, centered at y.
func (c *Canvas) TextUp(x, y, size float64, s string, col color.RGBA) {
	if c.err != nil {
		return
	}
	c.svg.textUp(x, y, size, s, col)
	w := c.TextWidth(size, s)
	c.gc.SetFontSize(size * scale)
	c.gc.SetFillColor(col)
	c.gc.Save()
	c.gc.Translate(x*scale, (y+w/2)*scale)
	c.gc.Rotate(-math.Pi / 2)
	if _, err := c.gc.CreateStringPath(s, 0, 0); err != nil {
		c.err = fault.New(fault.Local, "plot: %w", err)
	}
	c.gc.Fill()
	c.gc.Restore()
	c.pdf.SetTextColor(int(col.R), int(col.G), int(col.B))
	c.pdf.TransformBegin()
	c.pdf.TransformRotate(90, x, y+w/2)
	c.pdf.Text(x, y+w/2, s)
	c.pdf.TransformEnd()
}

// Save writes the figure as name.png, name.pdf and name.svg into a directory, which
// must exist.
func (c *Canvas) Save(dir, name string) error {
	if c.err != nil {
		return c.err
	}
	var b bytes.Buffer
	if err := png.Encode(&b, c.img); err != nil {
		return fault.New(fault.Local, "plot %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), b.Bytes(), 0o644); err != nil {
		return fault.New(fault.Local, "plot: %w", err)
	}
	b.Reset()
	if err := c.pdf.Output(&b); err != nil {
		return fault.New(fault.Local, "plot %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".pdf"), b.Bytes(), 0o644); err != nil {
		return fault.New(fault.Local, "plot: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".svg"), c.svg.file(), 0o644); err != nil {
		return fault.New(fault.Local, "plot: %w", err)
	}
	return nil
}

// Number writes a value with a sensible number of digits.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
