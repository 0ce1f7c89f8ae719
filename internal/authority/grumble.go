package authority

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
)

// grumble logs what strangers are refused, but not more than so many lines at
// once and one more every so often: anybody can post rubbish, and the log is on
// a disk. What is beyond is told for debugging only.
type grumble struct {
	log *slog.Logger
	now func() time.Time

	pace *rate.Limiter
}

func newGrumble(log *slog.Logger, now func() time.Time) *grumble {
	return &grumble{log, now, rate.NewLimiter(rate.Every(grumbleEvery), grumbles)}
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
	if !g.pace.AllowN(g.now(), 1) {
		return slog.LevelDebug
	}
	return level
}
