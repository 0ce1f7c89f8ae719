package plugin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// lines writes a plugin's lines to its parent, one whole line at a time
// (pt-spec 3.3).
type lines struct {
	mu sync.Mutex // held while a line is written
	w  io.Writer
}

// say writes a line. It replaces characters that would break the line.
func (l *lines) say(format string, args ...any) {
	s := strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, fmt.Sprintf(format, args...))
	l.mu.Lock()
	defer l.mu.Unlock()
	io.WriteString(l.w, s+"\n") // ignore the error: a parent that is gone closes stdin too
}

// quote makes a CString (control-spec 2.1).
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + `"`
}

// logHandler is a slog.Handler that writes LOG lines (pt-spec 3.3.4).
type logHandler struct {
	l     *lines
	min   slog.Level
	attrs string
}

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.min }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	severity := "debug"
	switch {
	case r.Level >= slog.LevelError:
		severity = "error"
	case r.Level >= slog.LevelWarn:
		severity = "warning"
	case r.Level >= slog.LevelInfo:
		severity = "info"
	}
	s := r.Message + h.attrs
	r.Attrs(func(a slog.Attr) bool {
		s += " " + a.Key + "=" + a.Value.Resolve().String()
		return true
	})
	h.l.say("LOG SEVERITY=%s MESSAGE=%s", severity, quote(s))
	return nil
}

func (h *logHandler) WithAttrs(as []slog.Attr) slog.Handler {
	n := *h
	for _, a := range as {
		n.attrs += " " + a.Key + "=" + a.Value.Resolve().String()
	}
	return &n
}

// WithGroup ignores the group: a LOG line has no structure.
func (h *logHandler) WithGroup(string) slog.Handler { return h }
