package fte

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// The waits between attempts to accept while the machine has no room.
const (
	acceptWait    = 5 * time.Millisecond
	acceptMaxWait = time.Second
)

// Accept returns the next connection of l. When the process or the machine is
// out of files or memory, which strangers can bring about, it waits and tries
// again, until ctx ends: what is open goes on, and ends.
func Accept(ctx context.Context, l net.Listener) (net.Conn, error) {
	for wait := acceptWait; ; wait = min(2*wait, acceptMaxWait) {
		c, err := l.Accept()
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil || !passes(err) {
			return nil, fault.New(fault.Network, "accepting: %w", err)
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, fault.New(fault.Network, "accepting: %w", err)
		}
	}
}

// passes reports whether an error of Accept is over after a while.
func passes(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}
