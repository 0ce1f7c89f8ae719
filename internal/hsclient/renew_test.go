package hsclient

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/hspow"
)

// TestRenew: a descriptor that suggests too little is fetched again after the attempt, but
// no more often than services change their minds.
func TestRenew(t *testing.T) {
	s := newService(t)
	for quick, every := range map[bool]time.Duration{false: hspow.ControlEvery, true: hspow.ControlEveryTesting} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeNet{}
			c := New(Config{Network: f, Log: slog.New(slog.DiscardHandler), MaxEffort: 1, Testing: quick})
			defer c.Close()
			h, desc := c.history(s.id), asking(0)
			desc.blinded, desc.expires = s.blinded, time.Now().Add(time.Hour)
			c.keep(desc, h.epoch)
			for i, step := range []struct {
				after time.Duration
				asks  bool
			}{{0, false}, {every - 1, false}, {1, true}, {0, false}, {every, true}} {
				time.Sleep(step.after)
				before := len(f.to)
				c.renew(h, desc)
				synctest.Wait()
				if asked := len(f.to) - before; (asked > 0) != step.asks {
					t.Errorf("testing %t, step %d: %d directories were asked", quick, i, asked)
				}
			}
		})
	}
}
