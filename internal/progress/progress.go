// Package progress draws a progress bar on one line of a terminal. A library's
// would add 0.2 MB to a binary that is to stay under 15.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// width is the bar's length in characters.
const width = 40

// Bar is a bar on the last line of a terminal. It is used by one goroutine.
type Bar struct {
	w     io.Writer
	drawn string
}

// New returns a bar that has not been drawn. What w fails to draw is not told:
// a bar is decoration.
func New(w io.Writer) *Bar { return &Bar{w: w} }

// OnTerminal is New if w is a terminal; else the bar is drawn nowhere, for in a
// file it would only be noise.
func OnTerminal(w io.Writer) *Bar {
	if !IsTerminal(w) {
		w = io.Discard
	}
	return New(w)
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Draw draws the line anew, if it is another one: text, and how much is done.
func (b *Bar) Draw(text string, done, of int) {
	part := 0.0
	if of > 0 {
		part = min(max(float64(done)/float64(of), 0), 1)
	}
	full := int(part * width)
	line := fmt.Sprintf("%s %3.0f%% [%s%s]", text, 100*part, strings.Repeat("=", full), strings.Repeat(" ", width-full))
	if line != b.drawn {
		b.drawn = line
		io.WriteString(b.w, "\r\x1b[K"+line)
	}
}

// Clear takes the line away.
func (b *Bar) Clear() {
	if b.drawn != "" {
		b.drawn = ""
		io.WriteString(b.w, "\r\x1b[K")
	}
}

// End leaves the line as it is, and goes to the next.
func (b *Bar) End() {
	if b.drawn != "" {
		b.drawn = ""
		io.WriteString(b.w, "\n")
	}
}
