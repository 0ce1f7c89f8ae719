package program

import (
	"io"
	"log/slog"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/logline"
)

// NewLog returns a log of what is at least as grave as level, for w: lines for people if w is a terminal,
// and else slog's text. A client's Config.Logger can be this log.
func NewLog(level slog.Leveler, w io.Writer) *slog.Logger { return logline.New(level, logline.Auto, w) }

// Why returns what the system said in the chain of err, without the operation and the names that packages
// os and net put before it: for a message that has said them already. If the system said nothing, it
// returns err.
func Why(err error) error { return fault.Why(err) }
