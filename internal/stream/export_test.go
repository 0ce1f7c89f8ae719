package stream

// UpEnded reports whether a joint has nothing more to do with what its connection says.
func UpEnded(j Joined) bool {
	of := j.(*joint)
	return of.done(&of.up)
}

// DownMoves reports whether a joint has a goroutine for what its stream brings.
func DownMoves(j Joined) bool {
	of := j.(*joint)
	of.mu.Lock()
	defer of.mu.Unlock()
	return of.down == moving
}

// AwaitReadable waits until the stream has bytes that nobody has read.
func (s *Stream) AwaitReadable() {
	for wake := s.readWake.Wait(); !s.readable(); <-wake {
	}
}
