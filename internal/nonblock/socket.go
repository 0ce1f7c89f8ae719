package nonblock

import (
	"io"
	"syscall"
)

// Socket reads and writes a connection with calls that do not wait, and waits for
// the socket between them. At most one goroutine may read and one write at the same
// time.
type Socket struct {
	raw     syscall.RawConn
	in, out attempt
}

// attempt is a read or a write in progress, in fields so that it needs no
// allocation.
type attempt struct {
	p    []byte
	n    int
	err  error
	call func(fd uintptr) bool // reports whether the call is done, even for a part of p
}

func (a *attempt) make(call func(fd uintptr, p []byte) (int, error)) {
	a.call = func(fd uintptr) bool {
		a.n, a.err = call(fd, a.p)
		return a.err != ErrWait
	}
}

func (a *attempt) run(wait func(func(fd uintptr) bool) error, p []byte) (int, error) {
	a.p = p
	err := wait(a.call)
	a.p = nil
	if err != nil {
		return 0, err
	}
	return a.n, a.err
}

// NewSocket returns a Socket for the connection c. It returns c itself if the system
// does not support that, or if c is a wrapper around a connection.
func NewSocket(c io.ReadWriter) io.ReadWriter {
	t, ok := c.(syscall.Conn)
	if !ok || !Available {
		return c
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return c
	}
	s := &Socket{raw: raw}
	s.in.make(Read)
	s.out.make(Write)
	return s
}

// Read implements io.Reader.
func (s *Socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := s.in.run(s.raw.Read, p)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Write implements io.Writer.
func (s *Socket) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := s.out.run(s.raw.Write, p[done:])
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
