// Package role has the code that the public packages of the roles share: the
// lifetime between New and Close, the lock of the data directory, and the check of
// which configuration fields may change meanwhile.
package role

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// Life is the lifetime of a role, from Start until Stop or Close, or until the
// role cannot continue. Its methods may be called from any goroutine.
type Life struct {
	stop  context.CancelFunc
	asked atomic.Bool
	done  chan struct{}
	err   error // how it ended; written before done is closed

	mu      sync.Mutex   // held while the role is changed, and while it gives back what it has
	release func() error // guarded by mu; nil when it was called
}

// Start runs a role in a goroutine. run must return when its context ends, with
// an error if something was lost; or earlier, with the reason why it cannot
// continue. Then release gives back what the role has, such as the lock of its
// directory.
func Start(log *slog.Logger, run func(context.Context) error, release func() error) *Life {
	ctx, stop := context.WithCancel(context.Background())
	l := &Life{stop: stop, done: make(chan struct{}), release: release}
	go panics.Contain(log, l.end, func() { l.end(run(ctx)) })()
	return l
}

func (l *Life) end(err error) {
	l.stop()
	if lost := l.giveBack(); lost != nil {
		err = errors.Join(err, lost)
	}
	l.err = err
	close(l.done)
}

func (l *Life) giveBack() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	release := l.release
	l.release = nil
	if release == nil {
		return nil // it panicked, which ends a life too
	}
	return release()
}

// Change runs a function that changes the role, and that may write to its
// directory. After the role's end it is an error: the directory may be another's.
func (l *Life) Change(f func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.release == nil {
		return fault.New(fault.Closed, "it has ended")
	}
	return f()
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
