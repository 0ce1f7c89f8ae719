package idle

import (
	"errors"
	"net"
	"runtime"
	"syscall"

	"github.com/chivenet/chive/internal/nonblock"
)

// What writes know of a socket.
const (
	well   = iota
	asking // a write is in the kernel at this moment
	failed // one was told that the connection has failed
)

// TryWrite writes what the socket takes at once: if that is not all, n is less than
// len(p) and err is nil. Only one goroutine may write at a time.
func (c *Conn) TryWrite(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.alone == none:
		return c.tell(func() (int, error) { return nonblock.NewWriter(c.raw).TryWrite(p) })
	}
	n, err = c.tell(func() (int, error) { return nonblock.Write(uintptr(c.alone), p) })
	if err == nonblock.ErrWait {
		err = nil
	}
	return n, err
}

// Write writes all of p, and waits for that.
func (c *Conn) Write(p []byte) (done int, err error) {
	conn, raw, err := c.Hold(false)
	if err != nil {
		return 0, err
	}
	defer c.Release()
	if raw == nil {
		done, err = conn.Write(p)
		return c.tell(func() (int, error) { return done, err })
	}
	for done < len(p) && err == nil {
		var n int
		werr := raw.Write(func(fd uintptr) bool {
			n, err = c.tell(func() (int, error) { return nonblock.Write(fd, p[done:]) })
			return err != nonblock.ErrWait
		})
		done += n
		if werr != nil {
			return done, werr
		}
	}
	return done, err
}

// tell calls write, which must not wait, and notes what the kernel says. A reader may learn
// of the same failure before write returns, so Failed waits for that.
func (c *Conn) tell(write func() (int, error)) (n int, err error) {
	if !c.health.CompareAndSwap(well, asking) {
		return write()
	}
	health := uint32(well)
	defer func() { c.health.Store(health) }()
	n, err = write()
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != syscall.EPIPE {
		health = failed
	}
	return n, err
}

// Failed reports whether a write was told that the connection has failed. The kernel says
// so once: a read then finds an end like any other, although the peer did not send one. With
// EPIPE it did, or somebody was told before. Other errors may come after the peer's end; then
// it is not taken for one.
func (c *Conn) Failed() bool {
	for c.health.Load() == asking {
		runtime.Gosched()
	}
	return c.health.Load() == failed
}
