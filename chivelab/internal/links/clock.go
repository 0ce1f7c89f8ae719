package links

import (
	"context"
	"time"
)

// clock waits for a line: until it is time, or another goroutine wakes it, or ctx ends.
type clock interface {
	// begin is called first, by the goroutine that waits.
	begin()
	wait(ctx context.Context, d time.Duration)
	wake()
	close()
}

// timers is a clock of the runtime's timers, which works in virtual time. On Linux they are exact to
// a millisecond, as the runtime waits in epoll_wait(2).
type timers struct {
	timer *time.Timer
	woken chan struct{}
}

func newTimers() clock { return &timers{time.NewTimer(time.Hour), make(chan struct{}, 1)} }

func (t *timers) begin() {}

func (t *timers) wait(ctx context.Context, d time.Duration) {
	t.timer.Reset(d)
	select {
	case <-t.timer.C:
	case <-t.woken:
	case <-ctx.Done():
	}
}

func (t *timers) wake() {
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

func (t *timers) close() { t.timer.Stop() }
