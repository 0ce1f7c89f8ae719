package stream

import "io"

// Read implements net.Conn.
func (s *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	wake := s.readWake.Wait()
	for {
		if s.readOver() {
			return 0, errDeadline
		}
		n, more, err := s.readSome(p)
		if more {
			s.wakeReader() // another reader may wait
		}
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-wake:
		case <-s.deadlines().read.passed():
		}
	}
}

// readSome reads from the buffer; more says that other readers can go on.
func (s *Stream) readSome(p []byte) (n int, more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return 0, false, errClosed
	case s.buf.n == 0:
		err := s.readErrLocked()
		return 0, err != nil, err
	}
	n = s.buf.read(p, s.account)
	s.in.consumed(s, n)
	return n, s.buf.n > 0, nil
}

// WriteTo implements io.WriterTo: it writes the received chunks without another
// copy, until the stream ends. When w is a socket, the channel's reader
// writes to it while WriteTo waits: see deliver.
func (s *Stream) WriteTo(w io.Writer) (total int64, err error) {
	of := newSink(w)
	k := &of
	s.setSink(k)
	defer func() {
		s.setSink(nil)
		total = k.total
	}()
	wake := s.readWake.Wait()
	for {
		if s.readOver() {
			return 0, errDeadline
		}
		if ended, err := s.drain(k); ended {
			return 0, err
		}
		select {
		case <-wake:
		case <-s.deadlines().read.passed():
		}
	}
}

func (s *Stream) setSink(k *sink) {
	s.sinkMu.Lock()
	defer s.sinkMu.Unlock()
	s.sink = k
}

// drain writes what was received to the sink. It reports whether the stream has ended,
// or cannot be written to the sink, and waits for nothing but the sink.
func (s *Stream) drain(k *sink) (ended bool, err error) {
	s.sinkMu.Lock()
	defer s.sinkMu.Unlock()
	for {
		if k.err != nil {
			return true, k.err
		}
		c, err := s.nextChunk()
		if c == nil {
			if err == io.EOF {
				return true, nil
			}
			return err != nil, err
		}
		n, err := k.wait(c.b[c.r:c.w])
		putChunk(c, s.account)
		s.consumed(n)
		if err != nil {
			return true, err
		}
	}
}

// nextChunk takes the first chunk, or returns why there will be none.
func (s *Stream) nextChunk() (*chunk, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if c := s.buf.take(); c != nil {
		return c, nil
	}
	return nil, s.readErrLocked()
}

// deliver writes the buffer to WriteTo's socket, if WriteTo has nothing to do. It
// reports whether everything is written; otherwise a reader must be woken. It
// runs on the channel's reader.
func (s *Stream) deliver() bool {
	if !s.sinkMu.TryLock() {
		return false
	}
	defer s.sinkMu.Unlock()
	if s.sink == nil || s.sink.try == nil || s.sink.err != nil {
		return false
	}
	for c := s.takeChunk(); c != nil; c = s.takeChunk() {
		n, err := s.sink.write(c.b[c.r:c.w])
		if !s.delivered(c, n) || err != nil {
			return false
		}
	}
	return true
}

func (s *Stream) takeChunk() *chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.take()
}

// delivered accounts for n bytes of c that were written, and puts the rest back;
// it reports whether there is no rest, so that more may be delivered.
func (s *Stream) delivered(c *chunk, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		putChunk(c, s.account)
		return false
	}
	whole := n == c.w-c.r
	if c.r += n; whole {
		putChunk(c, s.account)
	} else {
		s.buf.putBack(c)
	}
	s.in.consumed(s, n)
	return whole
}

// consumed gives the peer credit for n bytes that the program has read.
func (s *Stream) consumed(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in.consumed(s, n)
}
