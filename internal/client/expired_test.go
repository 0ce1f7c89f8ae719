package client

import (
	"context"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
)

// TestExpiredContext: a dial that has no time left is a timeout, whether the client is
// ready or not.
func TestExpiredContext(t *testing.T) {
	c := isolated(t, netdir.Public(), refuse)
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	is := func(want fault.Kind) {
		t.Helper()
		_, err := c.Dial(ctx, Request{Host: "example.com", Port: 80})
		timeout, ok := err.(interface{ Timeout() bool })
		if !fault.Is(err, want) || !ok || !timeout.Timeout() {
			t.Errorf("%v (%v)", err, fault.KindOf(err))
		}
	}
	is(fault.Directory)
	c.openPool()
	for range 20 { // no chance decides
		is(fault.Timeout)
	}
}
