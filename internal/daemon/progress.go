package daemon

import (
	"io"
	"log/slog"

	"github.com/chivenet/chive"
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
		return &bar{draw.New(w)}
	}
	return &records{log: log}
}

// bar is a progress bar.
type bar struct{ *draw.Bar }

func (b *bar) show(s chive.BootstrapStatus) {
	text := s.Stage
	if s.Problem != "" {
		text += " (" + s.Problem + ")"
	}
	b.Draw(text, s.Percent, 100)
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
