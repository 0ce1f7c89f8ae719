package idle

import (
	"errors"
	"net"
	"syscall"

	"github.com/chivenet/chive/internal/nonblock"
)

// TryWrite writes what the socket takes at once: if that is not all, n is less than
// len(p) and err is nil.
func (c *Conn) TryWrite(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.alone == none:
		n, err = nonblock.NewWriter(c.raw).TryWrite(p)
	default:
		n, err = nonblock.Write(uintptr(c.alone), p)
	}
	if err == nonblock.ErrWait {
		err = nil
	}
	c.wroteLocked(err)
	return n, err
}

// Write writes all of p, and waits for that.
func (c *Conn) Write(p []byte) (int, error) {
	conn, _, err := c.Hold(false)
	if err != nil {
		return 0, err
	}
	defer c.Release()
	n, err := conn.Write(p)
	c.wrote(err)
	return n, err
}

func (c *Conn) wrote(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wroteLocked(err)
}

func (c *Conn) wroteLocked(err error) {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != syscall.EPIPE {
		c.failed = true
	}
}

// Failed reports whether a write was told that the connection has failed. The kernel says
// so once: a read then finds an end like any other, although the peer did not send one. With
// EPIPE it did, or somebody was told before.
func (c *Conn) Failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}
