//go:build unix

package channel

import (
	"io"
	"net"
	"sync"
	"syscall"
)

// wire is a link's TCP connection below TLS. When it is direct, a write never
// waits: what the kernel does not take is kept, a record at most, until drain
// waits for it. So whoever has cells for an idle channel can write them on the
// spot, and needs no other goroutine unless the peer is slow.
type wire struct {
	net.Conn
	raw syscall.RawConn

	// owned by the reader; drained is called when the socket has nothing more
	// to read, before waiting
	drained func()
	into    []byte
	got     int
	readErr error
	tryRead func(fd uintptr) bool

	mu     sync.Mutex // guards what follows
	direct bool
	rest   []byte // what the kernel did not take, in buf
	buf    []byte
	// of the write under way; in fields so that try needs no allocation
	p   []byte
	n   int
	err error
	try func(fd uintptr) bool
}

// newWire returns conn with direct writes, or nil when it has no socket.
func newWire(conn net.Conn) *wire {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	w := &wire{Conn: conn, raw: raw}
	w.try = func(fd uintptr) bool {
		for {
			w.n, w.err = syscall.Write(int(fd), w.p)
			if w.err != syscall.EINTR {
				return true
			}
		}
	}
	w.tryRead = func(fd uintptr) bool {
		for {
			w.got, w.readErr = syscall.Read(int(fd), w.into)
			switch w.readErr {
			case syscall.EINTR:
			case syscall.EAGAIN:
				w.drained()
				return false
			default:
				return true
			}
		}
	}
	return w
}

// setDirect makes writes direct from now on, and has drained called whenever a
// read is going to wait. The reader calls it.
func (w *wire) setDirect(drained func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drained = drained
	w.direct = true
}

func (w *wire) Read(p []byte) (int, error) {
	if w.drained == nil || len(p) == 0 {
		return w.Conn.Read(p)
	}
	w.into = p
	err := w.raw.Read(w.tryRead)
	w.into = nil
	switch {
	case err != nil:
		return 0, err
	case w.readErr != nil:
		return 0, w.readErr
	case w.got == 0:
		return 0, io.EOF
	}
	return w.got, nil
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.direct {
		return w.Conn.Write(p)
	}
	if len(w.rest) > 0 { // TLS itself has something to say
		w.keep(p)
		return len(p), nil
	}
	w.p = p
	err := w.raw.Write(w.try)
	w.p = nil
	if err != nil {
		return 0, err
	}
	n := max(w.n, 0)
	if w.err != nil && w.err != syscall.EAGAIN {
		return n, w.err
	}
	if n < len(p) {
		w.keep(p[n:])
	}
	return len(p), nil
}

func (w *wire) keep(p []byte) {
	if len(w.rest) == 0 {
		w.buf = w.buf[:0]
	}
	w.buf = append(w.buf, p...)
	w.rest = w.buf
}

// waits reports whether drain has something to do.
func (w *wire) waits() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.rest) > 0
}

// drain writes what is kept, and waits for the peer.
func (w *wire) drain() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) == 0 {
		return nil
	}
	_, err := w.Conn.Write(w.rest)
	w.rest = nil
	return err
}

// SyscallConn gives the socket to who sets options on it.
func (w *wire) SyscallConn() (syscall.RawConn, error) { return w.raw, nil }
