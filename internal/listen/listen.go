// Package listen accepts connections for every listener of this module. It
// owns what happens while the process or the machine is short of file
// descriptors or memory, which strangers can bring about: the listener waits and
// tries again, and says so once. What is open goes on, and ends.
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

// The waits between attempts to accept.
const (
	firstWait = 5 * time.Millisecond
	maxWait   = time.Second
)

// quiet is the time without a failure after which the next one is logged again.
const quiet = time.Minute

// Patient returns l with an Accept that waits and tries again after an error
// that passes. port names the listener in the log, which may be nil.
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

// Accept returns the next connection, or an error that does not pass.
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

// tell logs an error, unless there was one a short time before: an attacker who
// holds every descriptor must not fill the disk too.
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

// Close closes the listener and ends an Accept that waits.
func (p *patient) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.Listener.Close()
}

// Passes reports whether an error of Accept, or of reading from a socket that
// listens, may be over after a while: a shortage,
// or the error of one connection. Only an errno that says that the socket itself
// cannot be used does not pass, nor do errors that are not the system's.
func Passes(err error) bool {
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return true
	}
	n, ok := errors.AsType[syscall.Errno](err)
	return ok && n != syscall.EBADF && n != syscall.EINVAL && n != syscall.ENOTSOCK && n != syscall.EOPNOTSUPP
}

// Serve gives each connection of l to take, until ctx ends or l is closed or
// fails. Then l is closed. take runs on Serve's goroutine and must not wait; if it
// panics, its connection is closed. The error is nil if ctx has ended, of kind
// fault.Closed if somebody else has closed l, and of fault.Local otherwise.
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
