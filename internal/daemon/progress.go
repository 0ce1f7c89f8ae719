package daemon

import (
	"io"
	"log/slog"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/panics"
	draw "github.com/chivenet/chive/internal/progress"
)

// progress shows how far the bootstrap has come.
type progress interface {
	show(chive.BootstrapStatus)
	end() // the terminal is free for other lines again
}

// newProgress returns a bar if w is a terminal, and otherwise a log record for
// each stage.
func newProgress(w io.Writer, log *slog.Logger) progress {
	if draw.IsTerminal(w) {
		return &bar{Bar: draw.New(w), log: log}
	}
	return &records{log: log}
}

// ShowStart shows on a terminal how far a client has come, until it is ready or hide is
// called. It shows nothing elsewhere.
func ShowStart(c interface {
	Events() (<-chan chive.Event, func())
}, w io.Writer, log *slog.Logger) (hide func()) {
	if !draw.IsTerminal(w) {
		return func() {}
	}
	events, unsubscribe := c.Events()
	done := make(chan struct{})
	go panics.Contain(log, nil, func() {
		defer close(done)
		b := newProgress(w, log)
		defer b.end()
		for e := range events {
			boot, ok := e.(*chive.BootstrapEvent)
			if ok && boot.Ready {
				return
			}
			if ok {
				b.show(boot.BootstrapStatus)
			}
		}
	})()
	return func() { unsubscribe(); <-done }
}

// bar is a progress bar. A problem, which may be too long for its line, goes to the
// log.
type bar struct {
	*draw.Bar
	log     *slog.Logger
	problem bool // is told
}

func (b *bar) show(s chive.BootstrapStatus) {
	b.Draw(s.Stage, s.Percent, 100)
	if s.Problem != "" && !b.problem {
		b.log.Warn("bootstrap", "stage", s.Stage, "problem", s.Problem)
	}
	b.problem = s.Problem != ""
}

func (b *bar) end() { b.Clear() }

// records logs each change once.
type records struct {
	log  *slog.Logger
	last chive.BootstrapStatus
}

func (r *records) show(s chive.BootstrapStatus) {
	if s == r.last {
		return
	}
	r.last = s
	if s.Problem != "" {
		r.log.Warn("bootstrap", "percent", s.Percent, "stage", s.Stage, "problem", s.Problem)
		return
	}
	r.log.Info("bootstrap", "percent", s.Percent, "stage", s.Stage)
}

func (*records) end() {}
