package socks

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// rationed is how many lines about requests that fail a port writes into the log in a time of
// sparing. A program can make as many requests as it likes, and a disk is not endless.
const rationed = 10

// ration lets some lines into the log, and counts the others.
type ration struct {
	mu    sync.Mutex // guards what follows
	began time.Time
	lines int // since began
	held  int // not logged since the last line
}

// take reports whether a line may be logged, and how many were not since the one before.
func (r *ration) take(now time.Time) (ok bool, held int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() || now.Sub(r.began) >= sparing {
		r.began, r.lines = now, 0
	}
	if r.lines == rationed {
		r.held++
		return false, 0
	}
	held, r.held = r.held, 0
	r.lines++
	return true, held
}

// tell logs what became of a program's request, unless the program has gone, or made room. If
// the log has the level DEBUG, it gets every such line.
func (c *client) tell(msg string, err error, args ...any) {
	if !c.vanished && !errors.Is(err, net.ErrClosed) {
		c.s.tell(msg, append(args, "err", err)...)
	}
}

func (s *Server) tell(msg string, args ...any) {
	ok, held := s.told.take(time.Now())
	if !ok && !s.cfg.Log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	if held > 0 {
		args = append(args, "not_logged", held)
	}
	s.cfg.Log.Info(msg, args...)
}
