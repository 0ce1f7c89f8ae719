package stream

import (
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// Write implements net.Conn. It returns once all of p is sealed and queued on
// the circuit's channel; it waits for the hop's window, the stream's window or
// XON, and the channel.
func (s *Stream) Write(p []byte) (int, error) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.write(p)
}

func (s *Stream) write(p []byte) (int, error) {
	done := 0
	waiting := false
	defer func() {
		if waiting {
			s.hop.CancelWait(&s.writeWake)
		}
	}()
	for done < len(p) {
		if s.writeOver() {
			return done, errDeadline
		}
		want, bytes, wait, err := s.claim(len(p) - done)
		if err != nil {
			return done, err
		}
		if want > 0 {
			n, cells, err := s.send(p[done:done+bytes], want)
			if err != nil {
				return done, err
			}
			done += n
			waiting = cells == 0
			if cells > 0 {
				continue
			}
		} else if waiting {
			// The peer stopped the stream, so it must not wait in line for the hop's credit.
			s.hop.CancelWait(&s.writeWake)
			waiting = false
		}
		if !s.writeWake.IsWaiting() {
			s.writeWake.Wait()
			continue // a token may have been lost
		}
		if err := s.waitToWrite(wait); err != nil {
			return done, err
		}
	}
	return done, nil
}

// claim takes credit for up to n bytes: want cells, which hold so many bytes. When
// a rate allows none, wait is the time until it allows some.
func (s *Stream) claim(n int) (want, bytes int, wait time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.writeClosed {
		return 0, 0, 0, errClosed
	}
	if err := s.writeErrLocked(); err != nil {
		return 0, 0, 0, err
	}
	limit, wait := s.out.limit(s.hop.Now())
	per := s.hop.Info().MaxData
	want = min(limit, maxBatch, (n+per-1)/per)
	bytes = min(want*per, n)
	s.out.sent(want, bytes)
	s.wrote += uint64(bytes)
	s.sending = want > 0
	return want, bytes, wait, nil
}

// send sends what was claimed, or as much of it as it can.
func (s *Stream) send(p []byte, want int) (n, cells int, err error) {
	defer func() { s.unclaim(want-cells, len(p)-n) }()
	return s.hop.SendData(&s.writeWake, s.id, p, want)
}

// unclaim gives back credit that was not used, and sends END if it has waited.
func (s *Stream) unclaim(cells, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.unsent(cells, bytes)
	s.wrote -= uint64(bytes)
	s.sending = false
	if s.endDue != 0 {
		s.putEndLocked(s.endDue)
	}
}

// waitToWrite waits for credit, or for a rate's next tokens when wait is not
// zero.
func (s *Stream) waitToWrite(wait time.Duration) error {
	var tokens <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		tokens = t.C
	}
	select {
	case <-s.writeWake.Wait():
	case <-tokens:
	case <-s.deadlines().write.passed():
		return errDeadline
	}
	return nil
}

// sendEndLocked sends END, after the DATA that another goroutine sends at this moment: the
// peer forgets the stream at END, and a cell for a stream that it does not know costs the
// circuit.
func (s *Stream) sendEndLocked(reason cell.EndReason) {
	switch {
	case s.endSent:
		return
	case s.sending:
		s.endDue = reason
	default:
		s.putEndLocked(reason)
	}
	s.endSent = true
}

func (s *Stream) putEndLocked(reason cell.EndReason) {
	s.endDue = 0
	m := cell.End{Reason: reason}
	// An error means that the circuit is closed, and that nobody waits for END.
	_ = s.hop.Send(cell.RelayEnd, s.id, m.Append(nil))
}

// Close ends the stream with reason DONE, and drops unread data.
func (s *Stream) Close() error { return s.CloseReason(cell.EndDone) }

// CloseReason ends the stream with a reason for the peer.
func (s *Stream) CloseReason(reason cell.EndReason) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.finishLocked(errClosed, errClosed)
	s.buf.clear(s.account)
	s.account.Close()
	if !s.peerEnded {
		s.sendEndLocked(reason)
		s.hop.RemoveStream(s.id, false)
	}
	return nil
}
