package stream

import (
	"io"
	"net"
)

// Read implements net.Conn.
func (s *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if isClosed(s.readBy.passed()) {
			return 0, errDeadline
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return 0, net.ErrClosed
		}
		if s.buf.n > 0 {
			n := s.buf.read(p)
			s.in.consumed(s, n)
			more := s.buf.n > 0
			s.mu.Unlock()
			if more {
				s.wakeReader() // another reader may wait
			}
			return n, nil
		}
		err := s.readErr
		s.mu.Unlock()
		if err != nil {
			s.wakeReader()
			return 0, err
		}
		select {
		case <-s.readWake:
		case <-s.readBy.passed():
		}
	}
}

// WriteTo implements io.WriterTo: it hands out the received chunks without
// another copy, until the stream ends.
func (s *Stream) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		if isClosed(s.readBy.passed()) {
			return total, errDeadline
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return total, net.ErrClosed
		}
		c := s.buf.take()
		readErr := s.readErr
		s.mu.Unlock()
		if c == nil {
			if readErr == io.EOF {
				return total, nil
			}
			if readErr != nil {
				return total, readErr
			}
			select {
			case <-s.readWake:
			case <-s.readBy.passed():
			}
			continue
		}
		n, err := w.Write(c.b[c.r:c.w])
		putChunk(c)
		total += int64(n)
		s.mu.Lock()
		s.in.consumed(s, n)
		s.mu.Unlock()
		if err != nil {
			return total, err
		}
	}
}
