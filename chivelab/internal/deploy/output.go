package deploy

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/chivenet/chive/internal/fault"
)

// tellLines is how many of a program's last lines an error tells.
const tellLines = 8

// tellLine is how much of such a line it tells.
const tellLine = 400

// tail returns the last lines of what a program has printed, without what would change a terminal.
func tail(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	lines = lines[max(0, len(lines)-tellLines):]
	for i, l := range lines {
		lines[i] = clean(l)
	}
	return strings.Join(lines, "\n")
}

// clean returns a line of somebody else without what would change a terminal, and not too much of it.
func clean(line string) string {
	line = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r == '\r':
			return -1
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, line)
	return strings.ToValidUTF8(line[:min(len(line), tellLine)], "")
}

// awaitReady waits until a program has printed "ready" into a file. ended is closed when the program has ended.
func awaitReady(ctx context.Context, file string, ended <-chan struct{}) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		over := false
		select {
		case <-ended:
			over = true // it may have been ready before
		default:
		}
		out, err := os.ReadFile(file)
		switch {
		case err != nil:
			return fault.Wrap(fault.Local, err)
		case hasLine(out, "ready"):
			return nil
		case over:
			return fault.Wrap(fault.Local, errors.New("its program has ended"))
		}
		select {
		case <-ctx.Done():
			return fault.Ended(ctx, "%w", context.Cause(ctx))
		case <-ended:
		case <-tick.C:
		}
	}
}

// hasLine tells whether a line of what a program has printed is this.
func hasLine(out []byte, line string) bool {
	return slices.ContainsFunc(bytes.Split(out, []byte("\n")), func(l []byte) bool { return string(bytes.TrimSpace(l)) == line })
}
