package fte

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestMissing: a listener without a transport and a proxy that cannot dial say so at once,
// and take no connection.
func TestMissing(t *testing.T) {
	l := newPipeListener()
	ln := NewListener(l, ListenConfig{})
	if _, err := ln.Accept(); !errors.Is(err, ErrConfig) {
		t.Errorf("a listener without a transport: %v", err)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := new(Proxy).Serve(ctx, newPipeListener()); !errors.Is(err, ErrConfig) {
		t.Errorf("a proxy that cannot dial: %v", err)
	}
	if _, err := new(HTTPServer).Accept(); !errors.Is(err, ErrConfig) {
		t.Errorf("an HTTP server without a transport: %v", err)
	}
}
