//go:build unix

package fte

import (
	"io"
	"net"
	"os"
	"syscall"
)

// source reads a connection and asks for a buffer only when bytes wait, so that
// a waiting connection holds no buffer. One goroutine uses it.
type source struct {
	r   io.Reader
	raw syscall.RawConn // nil: a plain Read is used instead

	get  func() []byte
	rest func()
	n    int
	err  error
	fn   func(fd uintptr) bool // s.ready, bound once so that a read does not allocate
}

func newSource(r io.Reader) *source {
	s := &source{r: r}
	if c, ok := r.(*net.TCPConn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			s.raw, s.fn = raw, s.ready
		}
	}
	return s
}

// ready runs when the descriptor may have bytes.
func (s *source) ready(fd uintptr) bool {
	buf := s.get()
	for {
		n, err := syscall.Read(int(fd), buf)
		switch err {
		case nil:
			if s.n = n; n == 0 {
				s.err = io.EOF
			}
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			s.rest()
			return false
		default:
			s.n, s.err = 0, os.NewSyscallError("read", err)
			return true
		}
	}
}

// read waits for bytes and reads once into the buffer that get returns. read
// calls rest, if it is not nil, before each wait, so that the buffer can go back
// to its pool.
func (s *source) read(get func() []byte, rest func()) (int, error) {
	if s.raw == nil {
		return s.r.Read(get())
	}
	s.n, s.err, s.get, s.rest = 0, nil, get, rest
	if err := s.raw.Read(s.fn); err != nil {
		return 0, err
	}
	return s.n, s.err
}
