package client

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/stream"
)

// Conn is a stream that a user has, and the lease of its circuit.
type Conn struct {
	*stream.Stream
	c      *Client
	lease  interface{ Release() } // of its circuit
	id     uint64
	circ   uint64
	opened time.Duration // since the client was made
	closed atomic.Bool
	life   *streamLife
	// ordered: a controller closed it.
	ordered atomic.Bool
}

// Circuit returns the number of the circuit that the stream was opened on.
func (s *Conn) Circuit() uint64 { return s.circ }

// Close ends the stream and gives the circuit back.
func (s *Conn) Close() error {
	cause := s.Cause()
	err := s.Stream.Close()
	if s.closed.Swap(true) {
		return err
	}
	s.lease.Release()
	s.c.streams.Add(-1)
	r, w := s.Bytes()
	s.c.conns.remove(s, func() {
		s.c.m.read.Add(r)
		s.c.m.written.Add(w)
	})
	s.c.cfg.Hooks.stream(StreamInfo{ID: s.id, Circuit: s.circ, State: Closed, Read: r, Written: w, Err: cause})
	if s.life != nil {
		s.life.stop(nil)
		s.life.ended(cause)
	}
	return err
}

// streamStatuses lists the open streams, the oldest first.
func (c *Client) streamStatuses() []StreamStatus {
	all := c.conns.list()
	slices.SortFunc(all, func(a, b *Conn) int { return cmp.Compare(a.id, b.id) })
	out := make([]StreamStatus, len(all))
	for i, conn := range all {
		r, w := conn.Bytes()
		out[i] = StreamStatus{conn.id, conn.circ, c.started.Add(conn.opened), r, w}
	}
	return out
}

// bytes returns how many bytes streams have delivered and taken, open ones
// included.
func (c *Client) bytes() (read, written uint64) {
	return c.conns.bytes(func() (uint64, uint64) { return c.m.read.Value(), c.m.written.Value() })
}
