// Package race connects to something that has several addresses: it tries each a
// short time after the one before, or when that one has failed, and uses the
// first that answers (RFC 8305, "Happy Eyeballs"). The caller provides the clock
// and starts the goroutines.
package race

import (
	"context"
	"log/slog"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// Field says how attempts run.
type Field struct {
	// Delay is how long one attempt may take before the next begins beside it.
	Delay time.Duration
	After func(time.Duration) <-chan time.Time // time.After
	Go    func(func())                         // starts a goroutine
	Log   *slog.Logger                         // of panics; nil: none
}

// First makes attempts 0 to n-1, n > 0, in this order, and returns the first
// success, or the first error if all have failed. When it returns, the context of
// the other attempts ends; drop receives the results of those that succeed
// nevertheless.
func First[T any](ctx context.Context, f Field, n int, try func(ctx context.Context, i int) (T, error), drop func(T)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		won T
		err error
	}
	results := make(chan result, n)
	started, ended := 0, 0
	var next <-chan time.Time
	start := func() {
		i := started
		started++
		next = f.After(f.Delay)
		f.Go(func() {
			defer panics.Recover(f.Log, func(err error) { results <- result{err: err} })
			won, err := try(ctx, i)
			results <- result{won, err}
		})
	}
	start()
	var first error
	for {
		select {
		case <-next:
			if next = nil; started < n && ctx.Err() == nil {
				start()
			}
		case r := <-results:
			ended++
			if r.err == nil {
				late := started - ended
				f.Go(func() {
					defer panics.Recover(f.Log, nil)
					for range late {
						if r := <-results; r.err == nil {
							drop(r.won)
						}
					}
				})
				return r.won, nil
			}
			if first == nil {
				first = r.err
			}
			if started < n && ctx.Err() == nil {
				start()
			} else if ended == started {
				var none T
				return none, first
			}
		}
	}
}
