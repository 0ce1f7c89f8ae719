package chive

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// TestContextsEnd: what a context ends says so, by the context's own error and not only by
// its cause; and only what ran out of time is a time-out.
func TestContextsEnd(t *testing.T) {
	c := openClient(t)
	l, err := c.Listen(t.Context(), OnionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mine := errors.New("mine")
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(mine)
	over, cancelOver := context.WithDeadlineCause(t.Context(), time.Unix(1, 0), mine)
	defer cancelOver()
	for name, call := range map[string]func(context.Context) error{
		"Wait":      c.Wait,
		"Dial":      func(ctx context.Context) error { _, err := c.DialContext(ctx, "tcp", "example.com:80"); return err },
		"Lookup":    func(ctx context.Context) error { _, err := c.Lookup(ctx, "example.com"); return err },
		"Listen":    func(ctx context.Context) error { _, err := c.Listen(ctx, OnionConfig{}); return err },
		"Published": l.WaitPublished,
	} {
		if err := call(gone); !errors.Is(err, context.Canceled) || !errors.Is(err, mine) || !errors.Is(err, ErrClosed) || errors.Is(err, ErrTimeout) {
			t.Errorf("%s, cancelled: %v", name, err)
		} else if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
			t.Errorf("%s, cancelled: %v is a time-out", name, err)
		}
		if err := call(over); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mine) || !errors.Is(err, ErrTimeout) {
			t.Errorf("%s, out of time: %v", name, err)
		} else if n, ok := errors.AsType[net.Error](err); !ok || !n.Timeout() {
			t.Errorf("%s, out of time: %v is no time-out", name, err)
		}
	}
}

// TestClosedIsNetErrClosed: what a client or a listener that was closed says is net.ErrClosed, for
// code that knows package net only.
func TestClosedIsNetErrClosed(t *testing.T) {
	c := openClient(t)
	l, err := c.Listen(t.Context(), OnionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() { _, err := c.Dial("tcp", "example.com:80"); waits <- err }()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	onion := l.Address() + ":80"
	for name, call := range map[string]func() error{
		"a dial that waited": func() error { return <-waits },
		"Wait":               func() error { return c.Wait(t.Context()) },
		"Dial":               func() error { _, err := c.Dial("tcp", "example.com:80"); return err },
		"Dial of an onion":   func() error { _, err := c.Dial("tcp", onion); return err },
		"a child":            func() error { _, err := c.Isolated().Dial("tcp", "example.com:80"); return err },
		"Lookup":             func() error { _, err := c.Lookup(t.Context(), "example.com"); return err },
		"HTTP":               func() error { _, err := c.HTTPClient().Get("http://example.com/"); return err },
		"Listen":             func() error { _, err := c.Listen(t.Context(), OnionConfig{}); return err },
		"Reload":             func() error { return c.Reload(c.Config()) },
		"Accept":             func() error { _, err := l.Accept(); return err },
		"WaitPublished":      func() error { return l.WaitPublished(t.Context()) },
		"Reload of an onion": func() error { return l.Reload(l.Config()) },
	} {
		if err := call(); !errors.Is(err, net.ErrClosed) || !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
