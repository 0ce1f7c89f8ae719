package fault

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// TestEnded: who gives up has no time-out, and finds the context's own error besides its cause.
func TestEnded(t *testing.T) {
	cause, late := errors.New("cause"), New(Timeout, "late")
	over := func(cause error) context.Context {
		ctx, cancel := context.WithDeadlineCause(t.Context(), time.Unix(1, 0), cause)
		t.Cleanup(cancel)
		return ctx
	}
	gone := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	for _, x := range []struct {
		ctx   context.Context
		kind  Kind
		ended error
		cause error
	}{
		{over(nil), Timeout, context.DeadlineExceeded, context.DeadlineExceeded}, {over(cause), Timeout, context.DeadlineExceeded, cause},
		{gone(nil), Closed, context.Canceled, context.Canceled}, {gone(cause), Closed, context.Canceled, cause},
		{gone(late), Timeout, context.Canceled, late},
	} {
		err := Ended(x.ctx, "wait: %w", context.Cause(x.ctx))
		if KindOf(err) != x.kind || !errors.Is(err, x.kind) || !errors.Is(err, x.ended) || !errors.Is(err, x.cause) {
			t.Errorf("%v of %v", err, KindOf(err))
		}
		if err.Error() != "wait: "+x.cause.Error() {
			t.Errorf("it says %q", err)
		}
		if n, ok := errors.AsType[net.Error](err); !ok || n.Timeout() != (x.kind == Timeout) {
			t.Errorf("%v: a time-out? %v", err, n)
		}
	}
}

// TestEndedAfterTimeOut: who gives up after attempts that timed out has no time-out, but reads of them.
func TestEndedAfterTimeOut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := New(Network, "dial: %w", Ended(ctx, "circuit: %w; before: %w", context.Cause(ctx), New(Timeout, "no answer")))
	if !errors.Is(err, context.Canceled) || !errors.Is(err, Closed) || err.Error() != "dial: circuit: context canceled; before: no answer" {
		t.Error(err)
	}
	if n, ok := errors.AsType[net.Error](err); !ok || n.Timeout() || errors.Is(err, Timeout) {
		t.Error(err, "is a time-out")
	}
}
