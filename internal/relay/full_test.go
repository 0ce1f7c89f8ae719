package relay

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/account"
)

// TestWarnsWhenNearlyFull: a relay that is near its bound says so once, and again only after it was well below; its
// status says so meanwhile.
func TestWarnsWhenNearlyFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := &Relay{log: slog.New(slog.NewTextHandler(&log, nil)), memory: account.New(1000)}
		r.live.Store(&live{cfg: Config{MemoryOption: 1143}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.housekeep(ctx)
		}()
		held := r.memory.Address(netip.Addr{})
		for i, c := range []struct {
			more  int
			lines int
			full  bool
		}{{700, 0, false}, {150, 1, true}, {-100, 1, true}, {200, 1, true}, {-400, 1, false}, {260, 2, true}} {
			held.Reserve(c.more)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if n := strings.Count(log.String(), "level=WARN msg=\"peers make the relay hold nearly as much as it may: raise max-memory"); n != c.lines || r.full.Near() != c.full {
				t.Errorf("step %d: %d lines; full: %v; want %d, %v", i, n, r.full.Near(), c.lines, c.full)
			}
		}
		if !strings.Contains(log.String(), "used=850 bound=1000 max_memory=1143") {
			t.Error(log.String())
		}
		stop()
		<-ended
	})
}
