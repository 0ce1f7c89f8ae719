package authority

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics/panicstest"
)

// TestPanicEndsARound: after a panic in one round, an authority takes part in the
// next one.
func TestPanicEndsARound(t *testing.T) {
	panicstest.Expect(t, 1)
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	synctest.Test(t, func(t *testing.T) {
		var log panicstest.Log
		var rounds atomic.Int32
		all, _ := inMemory(t, 1, identities, signings, func(_ int, c *Config) {
			c.Log = log.Logger()
			c.Schedule = Schedule{InitialInterval: 30 * time.Minute, Interval: time.Hour, VoteDelay: 5 * time.Minute, DistDelay: 5 * time.Minute}
			c.Published = func(*netdoc.Consensus) {
				if rounds.Add(1) == 1 {
					panic("a mistake")
				}
			}
		})
		stop := run(t, all)
		defer stop()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if n := rounds.Load(); n < 3 {
			t.Errorf("%d consensuses were published", n)
		}
		if s := all[0].Status(); s.Panics != 1 || len(log.Panics()) != 1 {
			t.Errorf("%+v, and %d stacks", s, len(log.Panics()))
		}
	})
}
