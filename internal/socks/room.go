package socks

import (
	"time"

	"github.com/chivenet/chive/internal/panics"
)

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
// there is none, of those that may have gone: they wait for an answer, or nothing has moved for
// quietTime since their program ended its side. It reports whether there was one. The caller
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
	if worst == nil || worst.state == stateEnded {
		if t := s.quietLocked(time.Now()); t != nil {
			s.count.evicted.Inc()
			delete(s.conns, t)
			go panics.Contain(s.cfg.Log, nil, t.cut)() // it takes mu when it is done
			return true
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

// quietTime is how long nothing has moved on a connection, whose program has ended its side, when it may
// make room. A program that closes its connection cannot be told from one that has sent all and waits, and the
// far end may keep the stream for an hour.
const quietTime = time.Minute

// quietLocked returns the joined connection that may make room and that ended first.
func (s *Server) quietLocked(now time.Time) (oldest *joinedClient) {
	for conn := range s.conns {
		t, ok := conn.(*joinedClient)
		if !ok || t.ended.IsZero() {
			continue
		}
		if moved := t.bytes(); moved != t.moved {
			t.moved, t.looked = moved, now
		}
		if now.Sub(t.looked) >= s.quiet && (oldest == nil || t.ended.Before(oldest.ended)) {
			oldest = t
		}
	}
	return oldest
}

// counted is a stream that knows what has moved on it.
type counted interface{ Bytes() (read, written uint64) }

func (t *joinedClient) bytes() uint64 {
	read, written := t.far.(counted).Bytes()
	return read + written
}

// sideEnded notes that a program has ended its side of a joined connection.
func (s *Server) sideEnded(t *joinedClient, now time.Time) {
	if _, ok := t.far.(counted); !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.moved, t.ended, t.looked = t.bytes(), now, now
}
