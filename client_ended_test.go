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
		}
	}
}
