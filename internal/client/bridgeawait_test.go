package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// TestBridgeAwait: a client asks for nothing until a bridge has a descriptor. If it comes late, the client's next second is waited for,
// unless it need not look like C tor's.
func TestBridgeAwait(t *testing.T) {
	for name, c := range map[string]struct {
		fast bool
		late time.Duration // when the descriptor comes
		want time.Duration
	}{
		"at once":       {false, 0, 0},
		"late":          {false, 3300 * time.Millisecond, 4 * time.Second},
		"late and fast": {true, 3300 * time.Millisecond, 3300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bridge{}
				bs := &bridges{c: &Client{cfg: Config{Fast: c.fast}}, all: []*bridge{b}, changed: make(chan struct{})}
				answer := func() {
					bs.mu.Lock()
					defer bs.mu.Unlock()
					b.desc = new(netdoc.RouterDesc)
					close(bs.changed)
					bs.changed = make(chan struct{})
				}
				if c.late == 0 {
					answer()
				} else {
					time.AfterFunc(c.late, answer)
				}
				ctx, cancel := context.WithCancel(t.Context())
				go func() { // the client's clock
					for tick := time.NewTicker(time.Second); ctx.Err() == nil; {
						select {
						case <-tick.C:
							bs.c.seconds.tick()
						case <-ctx.Done():
						}
					}
				}()
				began := time.Now()
				if ok := bs.await(ctx); !ok || time.Since(began) != c.want {
					t.Errorf("%v after %v, want %v", ok, time.Since(began), c.want)
				}
				cancel()
				b.desc = nil
				if bs.await(ctx) {
					t.Error("it goes on after the client's end")
				}
			})
		})
	}
}
