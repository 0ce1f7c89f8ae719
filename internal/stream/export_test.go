package stream

// UpEnded reports whether a pump has nothing more to do with what its connection says.
func UpEnded(j Joined) bool {
	of := j.(*pump)
	return of.hasEnded(&of.up)
}

// DownMoves reports whether a pump has a goroutine for what its stream brings.
func DownMoves(j Joined) bool {
	of := j.(*pump)
	of.mu.Lock()
	defer of.mu.Unlock()
	return of.down == moving
}

// AwaitReadable waits until the stream has bytes that nobody has read.
func (s *Stream) AwaitReadable() {
	for wake := s.readWake.Wait(); !s.readable(); <-wake {
	}
}
