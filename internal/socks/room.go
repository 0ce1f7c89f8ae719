package socks

// What the server holds of a client that may have to make room for others. A program that has
// made a whole request and waits for its answer stays; so does one whose connection is joined.

// become notes what the server knows of a client.
func (c *client) become(state int) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.state = state
}

// The states of a client; those with lower numbers make room first.
const (
	stateSilent = iota // its request is not there
	stateEnded         // it waits for an answer, and may have gone
	stateAsked
)

// makeRoomLocked closes the oldest connection of those that have asked for nothing, or, if
// there is none, of those that may have gone. It reports whether there was one. The caller
// holds mu.
func (s *Server) makeRoomLocked() bool {
	var worst *client
	for conn := range s.conns {
		c, ok := conn.(*client)
		if !ok || c.state == stateAsked {
			continue
		}
		if worst == nil || c.state < worst.state || c.state == worst.state && c.number < worst.number {
			worst = c
		}
	}
	if worst == nil {
		return false
	}
	s.count.evicted.Inc()
	delete(s.conns, worst)
	worst.Close() // its handler ends
	return true
}
