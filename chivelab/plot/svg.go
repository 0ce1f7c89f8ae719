package plot

import (
	"encoding/xml"
	"fmt"
	"image/color"
	"strings"
)

// svg is what was drawn so far, as elements of an SVG file. Its text stays text, so
// that readers can search for it; they see it in a font of theirs.
type svg struct{ b strings.Builder }

func paint(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// points writes x0, y0, x1, y1, ... as pairs.
func points(xy []float64) string {
	var b strings.Builder
	for i := 0; i+1 < len(xy); i += 2 {
		fmt.Fprintf(&b, "%.2f,%.2f ", xy[i], xy[i+1])
	}
	return strings.TrimSpace(b.String())
}

func (s *svg) polygon(fill color.RGBA, xy []float64) {
	fmt.Fprintf(&s.b, "<polygon fill=\"%s\" points=\"%s\"/>\n", paint(fill), points(xy))
}

func (s *svg) line(stroke color.RGBA, width float64, xy []float64) {
	fmt.Fprintf(&s.b, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%.2f\" points=\"%s\"/>\n", paint(stroke), width, points(xy))
}

func (s *svg) text(x, y, size float64, align Align, text string, col color.RGBA) {
	s.words(x, y, size, align, "", text, col)
}

func (s *svg) textUp(x, y, size float64, text string, col color.RGBA) {
	s.words(x, y, size, Center, fmt.Sprintf(" transform=\"rotate(-90 %.2f %.2f)\"", x, y), text, col)
}

func (s *svg) words(x, y, size float64, align Align, turn, text string, col color.RGBA) {
	fmt.Fprintf(&s.b, "<text x=\"%.2f\" y=\"%.2f\" font-size=\"%.2f\" fill=\"%s\" text-anchor=\"%s\"%s>",
		x, y, size, paint(col), [...]string{"start", "middle", "end"}[align], turn)
	_ = xml.EscapeText(&s.b, []byte(text)) // a strings.Builder takes all
	s.b.WriteString("</text>\n")
}

// file is the whole file.
func (s *svg) file() []byte {
	return fmt.Appendf(nil, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"Roboto, Arial, sans-serif\">\n%s</svg>\n",
		Width, Height, s.b.String())
}
