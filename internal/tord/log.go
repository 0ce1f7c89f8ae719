package tord

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/torrc"
)

// severity is C tor's word for a level.
func severity(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "info"
	case l < slog.LevelWarn:
		return "notice"
	case l < slog.LevelError:
		return "warn"
	}
	return "err"
}

// target is where lines of the log go.
type target struct {
	level slog.Level
	to    *lines
	file  io.Closer // closed with the target; nil: standard output
}

// logs writes the log where the configuration says, and to controllers.
type logs struct {
	out   *lines // standard output
	debug atomic.Bool
	event atomic.Pointer[func(severity, text string)]

	mu      sync.Mutex
	targets []target // guarded by mu
}

// lines writes lines from a queue: a program that starts this one may not read them, and nothing waits for it.
type lines struct {
	queue chan line
	lost  atomic.Uint64
	ended chan struct{}
}

// line is what a queue has: a line, or who waits until all before it are written.
type line struct {
	text    string
	written chan<- struct{}
}

// maxLines is how many lines may wait.
const maxLines = 1024

func newLines(w io.Writer) *lines {
	l := &lines{queue: make(chan line, maxLines), ended: make(chan struct{})}
	go panics.Contain(nil, func(error) {}, func() {
		defer close(l.ended)
		for next := range l.queue {
			s := next.text
			if n := l.lost.Swap(0); n > 0 {
				s = fmt.Sprintf("(%d lines are lost)\n%s", n, s)
			}
			io.WriteString(w, s) // who started the program may have closed it, and then nobody wants the lines
			if next.written != nil {
				close(next.written)
			}
		}
	})()
	return l
}

func (l *lines) put(s string) {
	select {
	case l.queue <- line{text: s}:
	default:
		l.lost.Add(1)
	}
}

// flush waits until what was put before is written, or for a time.
func (l *lines) flush(most time.Duration) {
	over := time.After(most)
	written := make(chan struct{})
	select {
	case l.queue <- line{written: written}:
	case <-over:
		return
	}
	select {
	case <-written:
	case <-over:
	}
}

// end writes what waits, for a short time.
func (l *lines) end() { l.endIn(flushTime) }

func (l *lines) endIn(most time.Duration) {
	close(l.queue)
	select {
	case <-l.ended:
	case <-time.After(most):
	}
}

// How long the end of the program waits for readers of its lines: one that has run ends at once, and one that was
// asked for something has not done it before its answer is read.
const (
	flushTime  = 100 * time.Millisecond
	answerTime = 30 * time.Second
)

// open opens the targets that a configuration names; quiet is the least level of standard output if it names none.
func (l *logs) open(c conf, quiet slog.Level) ([]target, error) {
	var out []target
	values := c["Log"]
	if len(values) == 0 {
		return []target{{level: quiet, to: l.out}}, nil
	}
	for _, v := range values {
		t, err := l.target(v)
		if err != nil {
			closeTargets(out)
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func (l *logs) target(value string) (target, error) {
	word, to, err := torrc.LogTarget(value)
	if err != nil {
		return target{}, fault.New(fault.Config, "Log: %w", err)
	}
	var t target
	if err := t.level.UnmarshalText([]byte(word)); err != nil {
		return target{}, fault.New(fault.Config, "Log: %w", err)
	}
	path, isFile := strings.CutPrefix(to, "file ")
	switch {
	case to == "", strings.EqualFold(to, "stdout"), strings.EqualFold(to, "stderr"):
		t.to = l.out // standard error stays empty: some programs end a tor that writes there
		return t, nil
	case strings.EqualFold(to, "syslog"):
		w, err := openSyslog()
		if err != nil { // nobody collects it; C tor's lines are lost then
			t.to = l.out
			return t, nil
		}
		t.file, t.to = w, newLines(w)
		return t, nil
	case !isFile:
		return target{}, fault.New(fault.Config, "Log: the log cannot go to %s", to)
	}
	if path, err = atHome(path); err != nil {
		return target{}, err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|openNonblock, 0o600)
	if err != nil {
		return target{}, fault.New(fault.Config, "Log: %w", err)
	}
	t.file, t.to = f, newLines(f)
	return t, nil
}

func closeTargets(all []target) {
	for _, t := range all {
		if t.file != nil {
			t.to.end()
			t.file.Close()
		}
	}
}

// use replaces the targets.
func (l *logs) use(next []target) {
	l.mu.Lock()
	old := l.targets
	l.targets = next
	l.mu.Unlock()
	closeTargets(old)
}

// write adds a line to each target that wants it.
func (l *logs) write(at time.Time, level slog.Level, text string) {
	word := severity(level)
	line := at.Format("Jan 02 15:04:05.000") + " [" + word + "] " + text + "\n"
	l.toTargets(level, line)
	if f := l.event.Load(); f != nil {
		(*f)(strings.ToUpper(word), text)
	}
}

func (l *logs) toTargets(level slog.Level, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.targets {
		if level >= t.level || l.debug.Load() {
			t.to.put(line)
		}
	}
}

// notice writes a line in the words that other programs wait for.
func (l *logs) notice(format string, args ...any) {
	l.write(time.Now(), slog.LevelInfo, fmt.Sprintf(format, args...))
}

// handler is the logs as a slog.Handler.
type handler struct {
	l      *logs
	prefix string   // of the attributes' names
	attrs  []string // "key=value"
}

// Enabled implements slog.Handler.
func (h handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h handler) Handle(_ context.Context, r slog.Record) error {
	parts := append([]string{r.Message}, h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		parts = appendAttr(parts, h.prefix, a)
		return true
	})
	h.l.write(r.Time, r.Level, printable(strings.Join(parts, " ")))
	return nil
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		h.attrs = appendAttr(h.attrs, h.prefix, a)
	}
	return h
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	h.prefix += name + "."
	return h
}

func appendAttr(parts []string, prefix string, a slog.Attr) []string {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		for _, in := range v.Group() {
			parts = appendAttr(parts, prefix+a.Key+".", in)
		}
		return parts
	}
	text := v.String()
	if text == "" || strings.ContainsAny(text, " \"=") || printable(text) != text {
		text = strconv.Quote(text)
	}
	return append(parts, prefix+a.Key+"="+text)
}

// printable replaces what could be another line, or drive a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
