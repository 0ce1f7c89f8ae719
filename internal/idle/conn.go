package idle

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/nonblock"
)

// Conn is a connection that may rest. Its methods may be called from any goroutine.
type Conn struct {
	waker Waker

	mu     sync.Mutex      // guards what follows; no call that waits is made under it
	conn   net.Conn        // nil: net does not know the socket, or it is closed
	raw    syscall.RawConn // conn's socket; nil: conn is no socket of the kernel's
	alone  alone           // the socket that net does not know
	users  int8            // those of conn: see Hold
	closed bool
	kept   bool          // net must know the socket from now on
	rests  bool          // Rest was called, and nothing was read since then
	added  bool          // the poller has the socket
	queued bool          // the poller's queue has c
	turn   uint16        // changes at each use
	health atomic.Uint32 // see tell; mu does not guard it
	number uint64        // in the poller's table; 0: none
}

// Init sets up c, which must not be copied after that, for a connection that nobody else
// uses from now on.
func (c *Conn) Init(conn net.Conn, w Waker) {
	c.waker, c.conn, c.raw, c.alone = w, conn, Kernel(conn), none
}

// Kernel returns c's socket, or nil when it is not one of the kernel's: other
// types that hold one may do more in Read and Write than to read and write.
func Kernel(c any) syscall.RawConn {
	var raw syscall.RawConn
	var err error
	switch c := c.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	}
	if err != nil || !nonblock.Available {
		return nil
	}
	return raw
}

// Tries reports whether Read and TryWrite work. That never changes before Close.
func (c *Conn) Tries() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw != nil || c.alone != none
}

// MayRest reports whether Rest can work. That never changes before Close.
func (c *Conn) MayRest() bool { return available && c.Tries() }

// Read calls f with the socket, once: f must not wait. Otherwise it is as syscall.RawConn's.
func (c *Conn) Read(f func(fd uintptr) (done bool)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rests = false
	return c.controlLocked(func(fd uintptr) { f(fd) })
}

func (c *Conn) controlLocked(f func(fd uintptr)) error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.alone != none:
		f(uintptr(c.alone))
		return nil
	case c.raw == nil:
		return errNone
	}
	return c.raw.Control(f)
}

// scarceTime is how long Hold waits for a file descriptor when the process, or the
// system, has none left, and scarcePause how long between its attempts.
const (
	scarceTime  = time.Minute
	scarcePause = 50 * time.Millisecond
)

// Hold returns the connection, for calls that wait. It stays valid until Release, which
// the caller must call, or until Close. reads says that the caller reads: then the
// connection does not rest any more. raw is nil if Tries is false.
func (c *Conn) Hold(reads bool) (conn net.Conn, raw syscall.RawConn, err error) {
	for end := time.Now().Add(scarceTime); ; time.Sleep(scarcePause) {
		conn, raw, err = c.hold(reads)
		if err == nil || !scarce(err) || time.Now().After(end) {
			return conn, raw, err
		}
	}
}

func scarce(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func (c *Conn) hold(reads bool) (net.Conn, syscall.RawConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reads {
		c.rests = false
	}
	if err := c.returnLocked(); err != nil {
		return nil, nil, err
	}
	c.users++
	c.turn++
	return c.conn, c.raw, nil
}

// Known has net know the socket again, for a caller that reads. It reports whether Hold
// works at once: it does not while there is no file descriptor left. Read works then.
func (c *Conn) Known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rests = false
	return !scarce(c.returnLocked())
}

// returnLocked makes the socket known to net again.
func (c *Conn) returnLocked() error {
	if c.closed {
		return net.ErrClosed
	}
	if c.alone == none {
		return nil
	}
	conn, err := c.alone.toNet()
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	rearm := c.added
	all.remove(c)
	c.alone.close()
	c.conn, c.raw, c.alone = conn, Kernel(conn), none
	if rearm && c.rests && all.arm(c) != nil {
		all.wake(c)
	}
	return nil
}

// Release ends the use that Hold began.
func (c *Conn) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	c.retireLocked()
}

// Rest returns at once. When the connection has something to read, has ended or has
// failed, Wake runs in a goroutine of its own; at times it also runs without a reason.
// It does not run after Close, unless it has begun at the same time. After an error, the
// caller must wait in another way.
func (c *Conn) Rest() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if err := all.arm(c); err != nil {
		return err
	}
	c.rests = true
	c.turn++
	c.retireLocked()
	return nil
}

// retireLocked has the socket taken from net, if it still rests some time later.
func (c *Conn) retireLocked() {
	if c.users == 0 && c.rests && c.alone == none && !c.closed && !c.kept && !c.queued {
		c.queued = true
		all.retire(c, c.turn)
	}
}

// leave takes the socket from net. If it was used since that turn, it waits again: so the
// queue has each connection once at most, however often it is used.
func (c *Conn) leave(turn uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued = false
	if c.turn != turn {
		c.retireLocked()
		return
	}
	if c.users > 0 || !c.rests || c.alone != none || c.closed || c.kept {
		return
	}
	fd, err := fromNet(c.raw)
	if err != nil {
		return // net goes on knowing it
	}
	all.remove(c) // by the file descriptor that it has in net
	c.conn.Close()
	c.conn, c.raw, c.alone = nil, nil, fd
	if all.arm(c) != nil {
		all.wake(c)
	}
}

// SetWriteDeadline bounds the writes that wait. It is for the end of a connection: from
// now on, net knows its socket. If that fails, the connection is reset.
func (c *Conn) SetWriteDeadline(t time.Time) {
	if !c.setWriteDeadline(t) {
		c.Reset()
	}
}

func (c *Conn) setWriteDeadline(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = true
	if err := c.returnLocked(); err != nil {
		return c.closed
	}
	_ = c.conn.SetWriteDeadline(t) // an error says that it is closed
	return true
}

// CloseWrite ends what this end writes. It is an error if the connection has no such end.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case c.alone != none:
		return c.alone.closeWrite()
	}
	if w, ok := c.conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Reset closes the connection so that the other end sees that it has failed, where there
// is a way to show that.
func (c *Conn) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		if t, ok := c.conn.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // an error says that the other end has closed it
		} else if c.alone != none {
			c.alone.noLinger()
		}
	}
	c.closeLocked()
}

// Close closes the connection, and ends calls that wait for it.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked()
}

func (c *Conn) closeLocked() {
	if c.closed {
		return
	}
	c.closed = true
	all.forget(c)
	if c.alone != none {
		c.alone.close()
		c.alone = none
		return
	}
	c.conn.Close()
}
