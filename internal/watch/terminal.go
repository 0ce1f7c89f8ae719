package watch

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"golang.org/x/term"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// Control codes: the alternate screen, which leaves what was there as it is; no cursor; and
// no new line after the last column.
const (
	enter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
	leave = "\x1b[m\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// Run shows a running program on a terminal until the user quits or ctx ends. Then, and
// also when it panics, the terminal is as before.
func Run(ctx context.Context, src Source, in, out *os.File) error {
	if !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) || os.Getenv("TERM") == "dumb" {
		return fault.New(fault.Config, "--watch needs a terminal: use chive status alone, or repeat it, as in \"while sleep 5; do chive status; done\"")
	}
	prepared, err := prepare(out)
	if err != nil {
		return fault.New(fault.Local, "prepare the terminal: %w", err)
	}
	defer prepared()
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fault.New(fault.Local, "prepare the terminal: %w", err)
	}
	defer term.Restore(int(in.Fd()), before)
	t := &terminal{in: in, out: out, pressed: make(chan key, 64)}
	var stop func()
	t.turned, stop = sizeChanges()
	defer stop()
	fmt.Fprint(out, enter)
	defer fmt.Fprint(out, leave)
	// It ends with the process: a read from a terminal cannot be interrupted.
	go panics.Contain(slog.New(slog.DiscardHandler), nil, t.read)()
	return loop(ctx, src, t, newView(os.Getenv("NO_COLOR") == "", isUnicode()))
}

// isUnicode reports whether the terminal takes UTF-8.
func isUnicode() bool {
	if runtime.GOOS == "windows" {
		return true
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			v = strings.ToLower(strings.ReplaceAll(v, "-", ""))
			return strings.Contains(v, "utf8")
		}
	}
	return false
}

// terminal is the screen that a user sees.
type terminal struct {
	in, out *os.File
	pressed chan key
	turned  <-chan struct{}

	shown []string // the rows, as they were drawn
	at    [2]int   // the size then
}

func (t *terminal) size() (columns, rows int) {
	columns, rows, err := term.GetSize(int(t.out.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		return 80, 24
	}
	return columns, rows
}

// draw writes the rows that have changed.
func (t *terminal) draw(rows []string) {
	columns, lines := t.size()
	var b strings.Builder
	if at := [2]int{columns, lines}; at != t.at {
		t.at, t.shown = at, nil
		b.WriteString("\x1b[2J")
	}
	for i, row := range rows {
		if i >= len(t.shown) || t.shown[i] != row {
			fmt.Fprintf(&b, "\x1b[%d;1H%s", i+1, row)
		}
	}
	t.shown = rows
	// If this fails, the terminal is gone: SIGHUP, or the end of the input, ends the program.
	fmt.Fprint(t.out, b.String())
}

func (t *terminal) keys() <-chan key         { return t.pressed }
func (t *terminal) resized() <-chan struct{} { return t.turned }

// read passes on what the user presses.
func (t *terminal) read() {
	defer close(t.pressed)
	b := make([]byte, 256)
	for {
		n, err := t.in.Read(b)
		if err != nil {
			return
		}
		for _, k := range parseKeys(b[:n]) {
			t.pressed <- k
		}
	}
}
