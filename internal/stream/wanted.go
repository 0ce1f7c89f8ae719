package stream

import (
	"context"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// errUnwanted is why a context of Wanted ends when the client goes.
var errUnwanted = fault.New(fault.Closed, "the client has ended the stream")

// lastTime is how long what a stream leads to may still take to open after the client has
// ended the stream, if it had sent data before: it may have said all that it had to say.
const lastTime = 5 * time.Second

// Wanted returns a context for opening what an accepted stream leads to, before Connected. It
// ends when the client ends the stream, or the circuit closes. stop must be called.
func (s *Stream) Wanted(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	over, done := s.over(), make(chan struct{})
	go func() {
		defer panics.Recover(nil, cancel)
		defer close(done)
		select {
		case <-over:
		case <-ctx.Done():
			return
		}
		if s.leftData() {
			t := time.NewTimer(lastTime)
			defer t.Stop()
			select {
			case <-t.C:
			case <-ctx.Done():
			}
		}
		cancel(errUnwanted)
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// over returns a channel that is closed when an accepted stream has ended.
func (s *Stream) over() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened == nil {
		if s.opened = make(chan struct{}); s.writeErrLocked() != nil {
			s.openedLocked()
		}
	}
	return s.opened
}

// leftData reports whether the client has ended the stream in order after data that nobody
// has read.
func (s *Stream) leftData() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.n > 0 && !s.noCircuit && !s.closed
}
