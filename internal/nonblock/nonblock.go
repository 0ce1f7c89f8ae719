// Package nonblock reads from and writes to sockets by system calls that never
// wait.
//
// Go's sockets are non-blocking already. What this package adds is to be told
// when they would block, and on Linux a system call that the scheduler does not
// hear of: that would wake its monitor thread for each first call after the
// process was idle, which costs a proxy as much as the call.
package nonblock

import (
	"errors"
	"syscall"
)

// ErrWait says that there is nothing to read, or no room to write, for now.
var ErrWait = errors.New("the socket would block")

// Read reads what the socket holds into p, which has room, for use inside
// syscall.RawConn.Read. It returns zero and no error at the end, and ErrWait
// when nothing is there.
func Read(fd uintptr, p []byte) (int, error) { return again(fd, p, read) }

// Write writes what the kernel takes of p, which is not empty, for use inside
// syscall.RawConn.Write. It returns ErrWait when that is nothing.
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

// Writer writes to one socket. One goroutine uses it at a time, and none other
// writes to the socket meanwhile.
type Writer struct {
	raw syscall.RawConn
	// of the write under way; in fields so that try needs no allocation
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

// Write writes what the kernel takes of p: less than all of it, and no error,
// when there is no more room.
func (w *Writer) Write(p []byte) (int, error) {
	w.p, w.n, w.err = p, 0, nil
	err := w.raw.Write(w.try)
	w.p = nil
	if err == nil && w.err != ErrWait {
		err = w.err
	}
	return w.n, err
}
