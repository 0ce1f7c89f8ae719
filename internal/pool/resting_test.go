package pool

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/path"
)

// TestResting: while the pool rests it builds nothing ahead, by either clock. A request is served still, and once the rest is over,
// circuits are built ahead again.
func TestResting(t *testing.T) {
	for name, common := range map[string]*Common{
		"own":    nil,
		"common": {Sets: func() (int, int) { return 0, 0 }, Learning: func() time.Duration { return 0 }, Server: func() bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rests atomic.Bool
				rests.Store(true)
				b := &fakeBuilder{}
				p := New(Config{Common: common, Resting: rests.Load}, b)
				defer p.Close()
				time.Sleep(5 * time.Minute)
				if n := b.launched(); n != 0 {
					t.Errorf("%d circuits were built ahead", n)
				}
				if !p.Predicts() {
					t.Error("it has forgotten what it predicts")
				}
				lease, err := p.Acquire(context.Background(), Request{Dest: path.Dest{Port: 443}})
				if err != nil {
					t.Fatal(err)
				}
				defer lease.Release()
				time.Sleep(time.Minute)
				if n := b.launched(); n != 1 {
					t.Errorf("%d circuits for one request", n)
				}
				rests.Store(false)
				p.Retry()
				time.Sleep(time.Minute)
				if n := b.launched(); n < 2 {
					t.Errorf("%d circuits after the rest", n)
				}
				time.Sleep(3 * time.Hour)
				if p.Predicts() {
					t.Error("it predicts for ever")
				}
			})
		})
	}
}
