package exit

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/stream"
)

// flushTime is how long a destination may take to read what a client sent before its
// circuit closed.
const flushTime = 10 * time.Second

// joinedStream is a stream that bytes are moved for.
type joinedStream struct {
	e    *Exit
	s    *stream.Stream
	j    stream.Joined
	done func()
}

// join moves bytes between a stream and a connection, in the background; done is called
// at the end.
func (e *Exit) join(s *stream.Stream, conn net.Conn, done func()) {
	t := &joinedStream{e: e, s: s, done: done}
	if e.joinTo(t, conn) {
		t.cut()
	}
}

// joinTo notes that t must be cut when the exit closes, or reports that the exit is closed
// already.
func (e *Exit) joinTo(t *joinedStream, conn net.Conn) (closed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.j = t.s.JoinTarget(conn, &e.terms, t)
	e.joined[t] = struct{}{}
	return e.closed
}

func (t *joinedStream) cut() {
	_ = t.s.CloseReason(cell.EndMisc) // an error says that the circuit is closed
	t.j.Cut()
}

// Done implements stream.Owner.
func (t *joinedStream) Done() {
	t.e.forget(t)
	_ = t.s.Close()
	t.done()
}

func (e *Exit) forget(t *joinedStream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.joined, t)
}

// endReason returns the END reason for the end of the destination's half.
func endReason(err error) cell.EndReason {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return cell.EndDone
	}
	if r := reasonOf(err); r != cell.EndMisc {
		return r
	}
	return cell.EndMisc
}
