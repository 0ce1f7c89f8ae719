package daemon

import (
	"io"
	"log/slog"
	"os"

	"github.com/chivenet/chive"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far the bootstrap has come.
type progress interface {
	show(chive.Bootstrap)
	end() // the terminal is free for other lines again
}

// newProgress returns a bar for a terminal, and a log record for each stage
// elsewhere.
func newProgress(w io.Writer, log *slog.Logger) progress {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &bar{progressbar.NewOptions(100,
			progressbar.OptionSetWriter(f), progressbar.OptionSetWidth(24), progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(false), progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription("starting"),
		)}
	}
	return &records{log: log}
}

// bar is a progress bar. What it fails to draw on a terminal is not worth
// stopping for.
type bar struct{ *progressbar.ProgressBar }

func (b *bar) show(s chive.Bootstrap) {
	text := s.Stage
	if s.Problem != "" {
		text += " (" + s.Problem + ")"
	}
	b.Describe(text)
	b.Set(min(max(s.Percent, 0), 99)) // 100 would end the bar before the client is ready
}

func (b *bar) end() { b.Clear() }

// records logs each change once.
type records struct {
	log  *slog.Logger
	last chive.Bootstrap
}

func (r *records) show(s chive.Bootstrap) {
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
