// Package memconn has connections in memory: between the nodes of one process, and in a bubble of virtual time
// (testing/synctest), where sockets of the kernel do not work. They are as those of TCP as far as links care: there is
// room for bytes on their way, they have deadlines, and each end may close.
package memconn

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is the largest number of bytes on their way in one direction, as
// in a kernel's buffers. A write of more bytes waits until some are read.
const window = 256 << 10

// conn is one end of a connection in memory.
type conn struct {
	local, remote net.Addr
	in, out       *half
	closed        func() // may be nil
}

// Pipe returns the two ends of a connection, with the addresses of the ends. closed is called when the first end, that at
// from, is closed, and each time that it is closed again; nil: nothing is called.
func Pipe(from, to netip.AddrPort, closed func()) (a, b net.Conn) {
	up, down := newHalf(), newHalf()
	f, t := net.TCPAddrFromAddrPort(from), net.TCPAddrFromAddrPort(to)
	return &conn{local: f, remote: t, in: down, out: up, closed: closed}, &conn{local: t, remote: f, in: up, out: down}
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *conn) LocalAddr() net.Addr         { return c.local }
func (c *conn) RemoteAddr() net.Addr        { return c.remote }

// Close ends both directions: bytes that were written still arrive, and writes of
// the other end fail from now on.
func (c *conn) Close() error {
	c.out.end(false)
	c.in.end(true)
	if c.closed != nil {
		c.closed()
	}
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.until(&c.in.reading, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.until(&c.out.writing, t)
	return nil
}

// half is one direction of a connection.
type half struct {
	mu   sync.Mutex // guards what follows
	cond *sync.Cond
	buf  []byte
	over bool // the writer has closed
	cut  bool // the reader has closed
	// deadlines
	reading, writing deadline
}

// deadline is the deadline of reads or of writes.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func newHalf() *half {
	h := new(half)
	h.cond = sync.NewCond(&h.mu)
	return h
}

func (h *half) until(d *deadline, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = t
	if left := time.Until(t); !t.IsZero() && left > 0 && !h.cut && !h.over {
		d.timer = time.AfterFunc(left, h.wake)
	}
	h.cond.Broadcast()
}

func (h *half) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cond.Broadcast()
}

// passed reports whether the deadline has passed.
func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// end closes one side: the reader's, or the writer's.
func (h *half) end(reader bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if reader {
		h.cut, h.buf = true, nil
	} else {
		h.over = true
	}
	for _, d := range []*deadline{&h.reading, &h.writing} {
		if d.timer != nil && h.cut && h.over {
			d.timer.Stop()
		}
	}
	h.cond.Broadcast()
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.cut:
			return 0, net.ErrClosed
		case h.reading.passed():
			return 0, os.ErrDeadlineExceeded
		case len(h.buf) > 0:
			n := copy(p, h.buf)
			if h.buf = h.buf[n:]; len(h.buf) == 0 {
				h.buf = nil // a connection that is idle holds nothing
			}
			h.cond.Broadcast()
			return n, nil
		case h.over:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		h.cond.Wait()
	}
}

func (h *half) write(p []byte) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.over:
			return n, net.ErrClosed
		case h.cut:
			return n, syscall.EPIPE
		case h.writing.passed():
			return n, os.ErrDeadlineExceeded
		}
		k := min(window-len(h.buf), len(p)-n)
		h.buf = append(h.buf, p[n:n+k]...)
		if n += k; k > 0 {
			h.cond.Broadcast()
		}
		if n == len(p) {
			return n, nil
		}
		h.cond.Wait()
	}
}
