package fault

import (
	"context"
	"errors"
)

// Ended is New for what a context has ended. The kind is Timeout if its time is over, and
// Closed if its owner gave up: callers try again after a time-out. ctx's error is in the chain,
// also if ctx has a cause of its own.
func Ended(ctx context.Context, format string, args ...any) error {
	kind := Timeout
	if ctx.Err() == context.Canceled {
		kind = Closed
	}
	err := New(kind, format, args...)
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return &ended{err, ctx.Err()}
}

// ended has the text of an error, and that of a context in its chain.
type ended struct {
	error error
	ctx   error
}

func (e *ended) Error() string   { return e.error.Error() }
func (e *ended) Unwrap() []error { return []error{e.error, e.ctx} }
