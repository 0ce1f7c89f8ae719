package plot

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestSave: all files are what they claim to be, and what was drawn is there.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	c := New("a title")
	a := c.NewAxes(100, 60, 400, 300, 873, "us")
	a.Bar(a.Slot(0, 2), 50, 0, 500, Color(0))
	a.Box(a.Slot(1, 2), 50, NewBox([]float64{1, 2, 3, 4, 100, 5000}), Color(1))
	c.TextUp(30, 200, 12, "µs <&>", Black)
	if err := c.Save(dir, "x"); err != nil {
		t.Fatal(err)
	}
	f, err := os.ReadFile(filepath.Join(dir, "x.png"))
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(f))
	if err != nil {
		t.Fatal(err)
	}
	at := func(x, y float64) [3]uint32 {
		r, g, b, _ := img.At(int(x*scale), int(y*scale)).RGBA()
		return [3]uint32{r >> 8, g >> 8, b >> 8}
	}
	if got := at(a.Slot(0, 2), a.At(250)); got != [3]uint32{0, 114, 178} {
		t.Error("the bar is", got)
	}
	if got := at(a.Slot(0, 2), a.At(700)+3); got != [3]uint32{255, 255, 255} {
		t.Error("above the bar is", got)
	}
	p, err := os.ReadFile(filepath.Join(dir, "x.pdf"))
	if err != nil || !bytes.HasPrefix(p, []byte("%PDF-1.")) || !bytes.Contains(p[len(p)-8:], []byte("%%EOF")) {
		t.Error("no PDF", err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "x.svg"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch v := token.(type) {
		case xml.StartElement:
			seen[v.Name.Local]++
		case xml.CharData:
			seen[string(v)]++
		}
	}
	if seen["svg"] != 1 || seen["polygon"] < 3 || seen["polyline"] < 5 || seen["a title"] != 1 || seen["µs <&>"] != 1 {
		t.Errorf("in the SVG: %v", seen)
	}
	if err := New("x").Save(filepath.Join(dir, "missing"), "x"); err == nil {
		t.Error("saved into a directory that is not there")
	}
}

func TestTicks(t *testing.T) {
	for largest, want := range map[float64][2]float64{873: {200, 1000}, 1: {0.2, 1}, 7: {1, 7}, 1362: {200, 1400}, 0: {1, 1}, 0.03: {0.005, 0.03}} {
		step, top := ticks(largest)
		if math.Abs(step-want[0]) > 1e-9 || math.Abs(top-want[1]) > 1e-9 {
			t.Errorf("%v: %v %v", largest, step, top)
		}
	}
}

func TestNewBox(t *testing.T) {
	b := NewBox([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 100})
	if b.Median != 5.5 || b.Q1 != 3.25 || b.Q3 != 7.75 || b.Low != 1 || b.High != 9 || len(b.Beyond) != 1 || b.Beyond[0] != 100 {
		t.Errorf("%+v", b)
	}
	if b := NewBox(nil); b.High != 0 {
		t.Errorf("%+v", b)
	}
}
