// Package role has what the public packages of the roles share: a life between
// New and Close, and configurations of which some fields may change meanwhile.
package role

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// Life is the time that a role runs for, from Start until Stop or Close, or until
// the role cannot go on. Its methods may be called from any goroutine.
type Life struct {
	stop  context.CancelFunc
	asked atomic.Bool
	done  chan struct{}
	err   error // how it ended; written before done is closed
}

// Start runs a role in a goroutine. run returns when its context ends, with an
// error if something was lost, or with the reason why it cannot go on.
func Start(log *slog.Logger, run func(context.Context) error) *Life {
	ctx, stop := context.WithCancel(context.Background())
	l := &Life{stop: stop, done: make(chan struct{})}
	go panics.Contain(log, l.end, func() { l.end(run(ctx)) })()
	return l
}

func (l *Life) end(err error) {
	l.stop()
	l.err = err
	close(l.done)
}

// Stop asks the role to end, and does not wait.
func (l *Life) Stop() {
	l.asked.Store(true)
	l.stop()
}

// Close asks the role to end, waits until it has, and returns what it returned.
func (l *Life) Close() error {
	l.Stop()
	<-l.done
	return l.err
}

// Done is closed when the role has ended.
func (l *Life) Done() <-chan struct{} { return l.done }

// Err returns why the role ended without being asked to; nil while it runs, and
// after Stop or Close.
func (l *Life) Err() error {
	select {
	case <-l.done:
	default:
		return nil
	}
	switch {
	case l.asked.Load():
		return nil
	case l.err == nil:
		return fault.New(fault.Local, "it ended without a reason")
	}
	return l.err
}
