// Package listen accepts connections for every listener of this module. Strangers
// can use up the file descriptors or the memory of the process or the machine.
// The listener then waits, tries again, and logs this once; open connections
// continue.
package listen

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// The shortest and the longest wait between attempts to accept.
const (
	firstWait = 5 * time.Millisecond
	maxWait   = time.Second
)

// quiet is the time without a failure after which the next one is logged again.
const quiet = time.Minute

// Patient returns l with an Accept that waits and tries again after a temporary
// error. port names the listener in log, which may be nil.
func Patient(l net.Listener, log *slog.Logger, port string) net.Listener {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &patient{Listener: l, log: log, port: port, closed: make(chan struct{})}
}

type patient struct {
	net.Listener
	log    *slog.Logger
	port   string
	once   sync.Once
	closed chan struct{}

	mu     sync.Mutex // guards what follows
	failed time.Time  // when an attempt failed last
}

// Accept returns the next connection, or an error that is not temporary.
func (p *patient) Accept() (net.Conn, error) {
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		c, err := p.Listener.Accept()
		if err == nil || !Passes(err) {
			return c, err
		}
		p.tell(err)
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-p.closed:
			t.Stop()
			return nil, net.ErrClosed
		}
	}
}

// tell logs an error, unless another one came a short time before: an attacker
// who uses up every descriptor must not fill the disk too.
func (p *patient) tell(err error) {
	now := time.Now()
	p.mu.Lock()
	last := p.failed
	p.failed = now
	p.mu.Unlock()
	if last.IsZero() || now.Sub(last) > quiet {
		p.log.Warn("cannot accept connections now; trying again until it is possible", "port", p.port, "err", err)
	}
}

// Close closes the listener and ends a waiting Accept.
func (p *patient) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.Listener.Close()
}

// Passes reports whether an error of Accept, or of a read from a socket that
// listens, is temporary: a shortage, or an error of one connection. Errors that
// are no errno are not temporary, nor is an errno which says that the socket
// itself cannot be used.
func Passes(err error) bool {
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return true
	}
	n, ok := errors.AsType[syscall.Errno](err)
	return ok && n != syscall.EBADF && n != syscall.EINVAL && n != syscall.ENOTSOCK && n != syscall.EOPNOTSUPP
}

// Serve calls take with each connection of l, until ctx ends or l is closed or
// fails. Then it closes l. take runs on Serve's goroutine and must not wait; if
// it panics, its connection is closed. The error is nil if ctx has ended, of kind
// fault.Closed if other code has closed l, and of kind fault.Local otherwise.
func Serve(ctx context.Context, l net.Listener, log *slog.Logger, port string, take func(net.Conn)) error {
	l = Patient(l, log, port)
	defer l.Close()
	defer context.AfterFunc(ctx, panics.Contain(log, nil, func() { l.Close() }))()
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			panics.Contain(log, func(error) { c.Close() }, func() { take(c) })()
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fault.New(fault.Closed, "%s: %w", port, err)
		default:
			return fault.New(fault.Local, "%s: accept: %w", port, err)
		}
	}
}
