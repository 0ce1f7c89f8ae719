package simnet

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// memoryWindow is the largest number of bytes on their way in one direction, as
// in a kernel's buffers. A write of more bytes waits until some are read.
const memoryWindow = 256 << 10

// memoryConn is one end of a connection in memory.
type memoryConn struct {
	local, remote net.Addr
	in, out       *half
	forget        func() // may be nil
}

func newMemoryConns(from, to netip.AddrPort) (a, b *memoryConn) {
	up, down := newHalf(), newHalf()
	f, t := net.TCPAddrFromAddrPort(from), net.TCPAddrFromAddrPort(to)
	return &memoryConn{local: f, remote: t, in: down, out: up}, &memoryConn{local: t, remote: f, in: up, out: down}
}

func (c *memoryConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *memoryConn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *memoryConn) LocalAddr() net.Addr         { return c.local }
func (c *memoryConn) RemoteAddr() net.Addr        { return c.remote }

// Close ends both directions: bytes that were written still arrive, and writes of
// the other end fail from now on.
func (c *memoryConn) Close() error {
	c.out.end(false)
	c.in.end(true)
	if c.forget != nil {
		c.forget()
	}
	return nil
}

func (c *memoryConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.until(&c.in.reading, t)
	return nil
}

func (c *memoryConn) SetWriteDeadline(t time.Time) error {
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
			h.buf = h.buf[n:]
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
		k := min(memoryWindow-len(h.buf), len(p)-n)
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

// Pipe returns the two ends of a connection in memory, with the given addresses.
func Pipe(from, to netip.AddrPort) (a, b net.Conn) { return newMemoryConns(from, to) }
