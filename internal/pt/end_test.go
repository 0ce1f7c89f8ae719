package pt

import (
	"context"
	"errors"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestGiveUpWaiting: who stops waiting for a transport is told so, and not that it took too long.
func TestGiveUpWaiting(t *testing.T) {
	p := &Process{changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Method(ctx, "fte"); !fault.Is(err, fault.Closed) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
