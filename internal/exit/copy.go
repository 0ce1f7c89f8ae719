package exit

import (
	"errors"
	"io"
	"net"
	"sync"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/stream"
)

// copy moves bytes between a stream and a connection. END closes both directions
// of a stream, so the end of the destination's bytes ends both. The end of the
// client's bytes does so only if it is an error.
func (e *Exit) copy(s *stream.Stream, conn net.Conn) {
	stop := make(chan struct{})
	var once sync.Once
	end := func() { once.Do(func() { close(stop) }) }
	var wg sync.WaitGroup
	wg.Go(func() {
		defer panics.Recover(e.opts.Log, broke(s))
		defer end()
		n, err := s.ReadFrom(conn) // until the destination ends
		e.opts.Stats.BytesIn.Add(uint64(n))
		_ = s.CloseReason(endReason(err))
	})
	wg.Go(func() {
		defer panics.Recover(e.opts.Log, broke(s))
		defer end()
		n, err := s.WriteTo(conn) // until the client ends
		e.opts.Stats.BytesOut.Add(uint64(n))
		if err != nil && !errors.Is(err, net.ErrClosed) {
			_ = s.CloseReason(endReason(err))
		}
	})
	select {
	case <-stop:
	case <-e.ctx.Done():
		_ = s.CloseReason(cell.EndMisc)
	}
	conn.Close()
	wg.Wait()
	_ = s.Close()
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
