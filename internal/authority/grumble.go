package authority

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
)

// grumble logs refused requests of strangers: grumbles lines at once, and one
// more every grumbleEvery. Further lines have the debug level: anybody can post
// garbage, and must not fill the disk with the log.
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

// level returns the level of a line: debug if there were too many.
func (g *grumble) level(level slog.Level) slog.Level {
	if !g.pace.AllowN(g.now(), 1) {
		return slog.LevelDebug
	}
	return level
}
