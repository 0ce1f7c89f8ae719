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
	"sync"
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
type Writer struct{ raw syscall.RawConn }

// NewWriter returns a writer to raw, a socket.
func NewWriter(raw syscall.RawConn) Writer { return Writer{raw} }

// TryWrite writes as much of p as the kernel takes. If the kernel's buffer is full, n
// is less than len(p) and err is nil.
func (w Writer) TryWrite(p []byte) (int, error) {
	a := writings.Get().(*writing)
	a.p = p
	err := w.raw.Write(a.try)
	n, werr := a.n, a.err
	a.p, a.n, a.err = nil, 0, nil
	writings.Put(a)
	if err == nil && werr != ErrWait {
		err = werr
	}
	return n, err
}

// writing is a write in progress. Writers share them, because most sockets are silent.
type writing struct {
	p   []byte
	n   int
	err error
	try func(fd uintptr) bool
}

var writings = sync.Pool{New: func() any {
	a := new(writing)
	a.try = func(fd uintptr) bool {
		a.n, a.err = Write(fd, a.p)
		return true
	}
	return a
}}
