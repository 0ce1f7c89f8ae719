// Package logline writes logs: lines for people on a terminal, and slog's text or JSON
// everywhere else.
package logline

import (
	"io"
	"log/slog"

	"github.com/chivenet/chive/internal/progress"
)

// The formats of a log. Auto is lines for people on a terminal, and else Text.
const (
	Auto = "auto"
	Text = "text"
	JSON = "json"
)

// Formats are the values of --log-format.
var Formats = []string{Auto, Text, JSON}

// New returns a log of what is at least as grave as level. It goes to w in the format, and to
// the others as programs read it.
func New(level slog.Leveler, format string, w io.Writer, others ...io.Writer) *slog.Logger {
	if format == Auto && progress.IsTerminal(w) {
		w = &people{w: w, colour: colours(w)}
	}
	if len(others) > 0 {
		w = io.MultiWriter(append(others, w)...)
	}
	o := &slog.HandlerOptions{Level: level}
	if format == JSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
