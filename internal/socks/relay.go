package socks

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/stream"
)

// Sizes of buffers. An idle connection holds two small ones; one that
// moves bulk data borrows large ones, so that a read takes many cells.
const (
	handshakeBuffer = 4 << 10
	smallBuffer     = 4 << 10
	largeBuffer     = 64 << 10
)

var (
	smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
	largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}
)

// joiner is a stream that moves bytes by itself, in the background: see
// stream.Stream.JoinUp. Nothing of a joined connection runs while nothing moves.
type joiner interface {
	JoinUp(conn net.Conn, first []byte, t *stream.Terms, ends stream.DirectionOwner) (j stream.Joined, up func())
}

// join moves bytes both ways between a client and its stream until both
// directions have ended, and closes both. An end of one direction is passed
// on as a half-close. When a direction fails, the client sees a reset where
// the transport has one: a broken stream must not look like the end of a
// whole answer.
func join(c *client, far net.Conn) {
	c.SetDeadline(time.Time{})
	first := c.waiting()
	c.br, c.io = nil, nil // the buffer may hold a password, and nobody needs it any more
	if j, ok := far.(joiner); ok && isKernel(c.Conn) {
		c.left = true
		t := &joinedClient{s: c.s, far: far}
		up, cutting := c.s.join(t, c, j, first)
		if cutting {
			t.cut()
		}
		up() // here: a new goroutine would have to wait for its turn, and grow its stack once more
		return
	}
	splice(c.log, c.Conn, first, far)
}

// Splice is what a Server does with a program's connection and its stream, for one that no
// Server has accepted. For a reset, near has the method SetLinger of net.TCPConn.
func Splice(log *slog.Logger, near, far net.Conn) { splice(log, near, nil, far) }

// splice moves the bytes of a program's connection near, after those in first, and of a stream.
func splice(log *slog.Logger, near net.Conn, first []byte, far net.Conn) {
	defer far.Close()
	defer near.Close()
	up := make(chan error, 1)
	go func() {
		defer panics.Recover(log, func(err error) { abort(near, far); up <- err })
		err := pump(far, first, near)
		if err != nil {
			abort(near, far)
		}
		up <- err
	}()
	defer func() { <-up }()
	defer panics.Recover(log, func(error) { abort(near, far) })
	if err := pump(near, nil, far); err != nil {
		abort(near, far)
	}
}

// joinedClient is a client's connection that is joined to its stream. No goroutine serves it.
type joinedClient struct {
	s   *Server
	far net.Conn
	j   stream.Joined

	// guarded by the server's mu
	ended  time.Time // when the program ended its side; zero: it did not
	moved  uint64    // bytes, when room was made last, or the program ended its side
	looked time.Time // since when they are as many
}

// join joins a client's connection to its stream; the caller must call up. It reports whether
// the server is cutting connections already.
func (s *Server) join(t *joinedClient, c *client, to joiner, first []byte) (up func(), cutting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.j, up = to.JoinUp(c.Conn, first, &s.terms, t)
	delete(s.conns, c)
	s.conns[t] = struct{}{}
	return up, s.cutting
}

func (t *joinedClient) cut() {
	t.j.Cut()
	t.far.Close()
}

// Up implements stream.DirectionOwner.
func (t *joinedClient) Up(j stream.Joined, err error) (over bool) {
	if err == nil {
		t.s.sideEnded(t, time.Now())
		err = closeWrite(t.far)
	}
	return t.over(j, err)
}

// Down implements stream.DirectionOwner.
func (t *joinedClient) Down(j stream.Joined, err error) (over bool) {
	if err = unanswered(err); err == nil {
		err = j.CloseWrite()
	}
	return t.over(j, err)
}

// over ends both sides after a failure, and the client with a reset.
func (t *joinedClient) over(j stream.Joined, err error) bool {
	if err != nil {
		j.Reset()
		t.far.Close()
	}
	return err != nil
}

// Done implements stream.DirectionOwner.
func (t *joinedClient) Done() {
	t.far.Close()
	t.s.forget(t)
	t.s.noteEnd()
}

// unanswered takes what happens after the program has ended its side, and the far end
// then says nothing, for an end: a reset would be worse than the end that C tor gives it.
func unanswered(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// waiting returns what the client sent while it waited for its reply, which
// comes before what it sends now.
func (c *client) waiting() []byte {
	b, _ := c.br.Peek(c.br.Buffered())
	return b
}

// pump copies from src to dst, after the bytes in first, and passes the end
// on.
func pump(dst net.Conn, first []byte, src net.Conn) error {
	if len(first) > 0 {
		if _, err := dst.Write(first); err != nil {
			return err
		}
	}
	if err := move(dst, src); err != nil {
		return err
	}
	return closeWrite(dst)
}

// move copies until the end of src. A stream moves its own bytes if it can.
// A kernel socket cannot: its methods would use a buffer of their own.
func move(dst, src net.Conn) error {
	if w, ok := src.(io.WriterTo); ok && !isKernel(src) {
		_, err := w.WriteTo(dst)
		return unanswered(err)
	}
	if r, ok := dst.(io.ReaderFrom); ok && !isKernel(dst) {
		_, err := r.ReadFrom(src)
		return err
	}
	return copyAdaptive(dst, src)
}

func isKernel(c net.Conn) bool {
	switch c.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// copyAdaptive copies with a small buffer, and with a large one as long as reads
// fill that.
func copyAdaptive(dst io.Writer, src io.Reader) error {
	small := smallBuffers.Get().(*[smallBuffer]byte)
	defer smallBuffers.Put(small)
	for {
		n, err := src.Read(small[:])
		if err := deliver(dst, small[:n], err); err != nil {
			return ended(err)
		}
		if n == len(small) {
			if err := copyBulk(dst, src); err != nil {
				return ended(err)
			}
		}
	}
}

// copyBulk copies with a large buffer until a read leaves most of it empty.
func copyBulk(dst io.Writer, src io.Reader) error {
	large := largeBuffers.Get().(*[largeBuffer]byte)
	defer largeBuffers.Put(large)
	for {
		n, err := src.Read(large[:])
		if err := deliver(dst, large[:n], err); err != nil {
			return err
		}
		if n < smallBuffer {
			return nil
		}
	}
}

// deliver writes what was read before it looks at how the read ended.
func deliver(dst io.Writer, b []byte, readErr error) error {
	if len(b) > 0 {
		if _, err := dst.Write(b); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrClosedPipe // not the end of what src has
			}
			return err
		}
	}
	return readErr
}

// ended turns the end of the data into success.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// closeWrite half-closes a connection. It closes one that cannot do that,
// because its peer would wait for ever.
func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// abort ends both sides after a failure, and the client with a reset.
func abort(near, far net.Conn) {
	if t, ok := near.(interface{ SetLinger(sec int) error }); ok {
		t.SetLinger(0)
	}
	near.Close()
	far.Close()
}
