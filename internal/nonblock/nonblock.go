// Package nonblock reads from and writes to sockets with system calls that never
// wait.
//
// Go's sockets are non-blocking already. This package also tells the caller when
// they would block. On Linux it makes the system call without telling Go's
// scheduler, which would wake its monitor thread for each first call after the
// process was idle. In a proxy that would cost as much as the call.
package nonblock

import (
	"errors"
	"syscall"
)

// ErrWait means that there is nothing to read now, or no space to write.
var ErrWait = errors.New("the socket would block")

// Read reads what the socket holds into p, which must not be empty. Use it inside
// syscall.RawConn.Read. It returns zero and no error at the end of the stream, and
// ErrWait if there is nothing to read.
func Read(fd uintptr, p []byte) (int, error) { return again(fd, p, read) }

// Write writes as much of p as the kernel takes; p must not be empty. Use it
// inside syscall.RawConn.Write. It returns ErrWait if the kernel takes nothing.
func Write(fd uintptr, p []byte) (int, error) { return again(fd, p, write) }

func again(fd uintptr, p []byte, call func(uintptr, []byte) (int, error)) (int, error) {
	for {
		n, err := call(fd, p)
		switch err {
		case nil:
			return n, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, ErrWait
		default:
			return 0, err
		}
	}
}

// Writer writes to one socket. Only one goroutine may use it at a time, and no
// other may write to the socket meanwhile.
type Writer struct {
	raw syscall.RawConn
	// of the write in progress; in fields so that try needs no allocation
	p   []byte
	n   int
	err error
	try func(fd uintptr) bool
}

// NewWriter returns a writer to raw, a socket.
func NewWriter(raw syscall.RawConn) *Writer {
	w := &Writer{raw: raw}
	w.try = func(fd uintptr) bool {
		w.n, w.err = Write(fd, w.p)
		return true
	}
	return w
}

// Write writes as much of p as the kernel takes. If the kernel's buffer is full, n
// is less than len(p) and err is nil.
func (w *Writer) Write(p []byte) (int, error) {
	w.p, w.n, w.err = p, 0, nil
	err := w.raw.Write(w.try)
	w.p = nil
	if err == nil && w.err != ErrWait {
		err = w.err
	}
	return w.n, err
}
