package authority

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// grumble logs what strangers are refused, but not more than so many lines at
// once and one more every so often: anybody can post rubbish, and the log is on
// a disk. What is beyond is told for debugging only.
type grumble struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex // guards what follows
	left float64
	last time.Time
}

const (
	grumbles     = 20
	grumbleEvery = 10 * time.Second
)

func (g *grumble) say(level slog.Level, msg string, err error) {
	g.log.Log(context.Background(), g.level(level), msg, "err", err)
}

// level returns the level that a line has, which is debug when there were too many.
func (g *grumble) level(level slog.Level) slog.Level {
	if !g.may() {
		return slog.LevelDebug
	}
	return level
}

func (g *grumble) may() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if d := now.Sub(g.last); g.last.IsZero() || d > grumbles*grumbleEvery {
		g.left = grumbles
	} else if d > 0 {
		g.left = min(grumbles, g.left+float64(d)/float64(grumbleEvery))
	}
	g.last = now
	if g.left < 1 {
		return false
	}
	g.left--
	return true
}
