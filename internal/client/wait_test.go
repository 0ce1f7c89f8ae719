package client

import (
	"context"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
)

// TestWaitPrefers: a ready client is ready for a caller whose context has ended, too, and a
// closed one is closed, though it was ready before.
func TestWaitPrefers(t *testing.T) {
	c := isolated(t, netdir.Public(), refuse)
	c.firstOnce.Do(func() { close(c.firstCirc) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 64 { // select chooses at random
		if err := c.Wait(ctx); err != nil {
			t.Fatalf("ready: %v", err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for range 64 {
		if err := c.Wait(t.Context()); !fault.Is(err, fault.Closed) {
			t.Fatalf("closed: %v", err)
		}
	}
}
