// Package progress draws a progress bar on one line of a terminal.
//
// Why this is no library: github.com/vbauerster/mpb/v8 v8.16.2 would add 0.23 MB to bin/chive, most of
// it Unicode's tables of the widths of characters, and take over Bar and Shared, 110 lines. It draws
// every 0.15 seconds from a goroutine of its own, where this package draws a change once.
package progress

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// width is the bar's length in characters.
const width = 40

// Bar is a bar on the last line of a terminal. It is used by one goroutine.
type Bar struct {
	w       io.Writer
	columns func() int // of the terminal
	drawn   string
}

// New returns a bar that has not been drawn, for a terminal. Failures to draw it
// are not reported, as nothing depends on it.
func New(w io.Writer) *Bar {
	return &Bar{w: w, columns: func() int {
		if f := File(w); f != nil {
			if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
				return n
			}
		}
		return 80
	}}
}

// OnTerminal is New if w is a terminal. Otherwise the bar is not drawn at all,
// because its control codes do not belong into a file.
func OnTerminal(w io.Writer) *Bar {
	if !IsTerminal(w) {
		w = io.Discard
	}
	return New(w)
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f := File(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// Draw draws the line again if it has changed: how much is done, and text. It
// cuts off what the terminal's line cannot hold, because a second line would
// stay there for ever.
func (b *Bar) Draw(text string, done, of int) {
	part := 0.0
	if of > 0 {
		part = min(max(float64(done)/float64(of), 0), 1)
	}
	full := int(part * width)
	b.line(fmt.Sprintf("%3.0f%% [%s%s] %s", 100*part, strings.Repeat("=", full), strings.Repeat(" ", width-full), text))
}

// Printable replaces what is not printable: a text may have lines, or a peer's control
// codes.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// PrintableLines is Printable for text of several lines.
func PrintableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = Printable(l)
	}
	return strings.Join(lines, "\n")
}

// line draws a line as far as the terminal is wide.
func (b *Bar) line(text string) {
	line := []rune(Printable(text))
	if s := string(line[:min(len(line), b.columns()-1)]); s != b.drawn {
		b.put(clear, s)
	}
}

// Clear removes the line.
func (b *Bar) Clear() {
	if b.drawn != "" {
		b.put(clear, "")
	}
}

// End leaves the line as it is, and goes to the next.
func (b *Bar) End() {
	if b.drawn != "" {
		b.put("\n", "")
	}
}

// clear goes to the line's beginning and clears it.
const clear = "\r\x1b[K"

// put writes control codes, and then the line.
func (b *Bar) put(codes, line string) {
	b.drawn = line
	if s, ok := b.w.(*Shared); ok {
		s.draw(codes, line)
		return
	}
	io.WriteString(b.w, codes+line)
}
