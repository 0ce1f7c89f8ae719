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

// join moves bytes between a stream and a connection, in the background; done is called
// at the end.
func (e *Exit) join(s *stream.Stream, conn net.Conn, done func()) {
	if cut := e.joined(s, conn, done); cut != nil {
		cut()
	}
}

// joined notes how the stream is cut when the exit closes; it returns that if the exit
// is closed already.
func (e *Exit) joined(s *stream.Stream, conn net.Conn, done func()) func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	cut := s.JoinTarget(conn, endReason, stream.Joint{
		Flush: func() time.Duration { return e.flush },
		Done: func() {
			in, out := s.Bytes()
			e.opts.Stats.BytesOut.Add(in)
			e.opts.Stats.BytesIn.Add(out)
			e.parted(s)
			_ = s.Close()
			done()
		},
		Log: e.opts.Log,
	})
	e.cuts[s] = func() {
		_ = s.CloseReason(cell.EndMisc) // an error says that the circuit is closed
		cut()
	}
	if !e.closed {
		return nil
	}
	return e.cuts[s]
}

func (e *Exit) parted(s *stream.Stream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.cuts, s)
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
