package fault

import (
	"context"
	"errors"
)

// Ended is New for what a context has ended. The kind is Timeout if its time is over, also if a clock of its owner's has
// said so, and Closed if its owner gave up: callers try again after a time-out. ctx's error is in the chain,
// also if ctx has a cause of its own.
func Ended(ctx context.Context, format string, args ...any) error {
	kind := Timeout
	if ctx.Err() == context.Canceled && !Is(context.Cause(ctx), Timeout) {
		kind = Closed
	}
	err := New(kind, format, args...)
	switch {
	case kind == Closed: // what failed before, perhaps by a time-out, is text only: it is not why this ended
		return &kinded{kind, &ended{err.Error(), []error{ctx.Err(), context.Cause(ctx)}}}
	case errors.Is(err, ctx.Err()):
		return err
	}
	return &kinded{kind, &ended{err.Error(), []error{err, ctx.Err()}}}
}

// ended has the text of an error, and others in its chain.
type ended struct {
	text  string
	chain []error
}

func (e *ended) Error() string   { return e.text }
func (e *ended) Unwrap() []error { return e.chain }
