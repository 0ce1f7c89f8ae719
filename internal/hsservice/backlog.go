package hsservice

import (
	"context"
	"slices"
	"sync"

	"github.com/chivenet/chive/internal/panics"
)

// maxBacklog is how many streams wait for Accept; more are refused. No circuit gets more than a
// part of what is free: its client, who pays for one rendezvous, would keep all others out.
const maxBacklog = 256

// backlog has the streams that wait for Accept, the longest first. A stream leaves it when its
// client goes, so that those who do not wait any more keep nobody out.
type backlog struct {
	ready chan struct{} // wakes one Accept

	mu      sync.Mutex // guards what follows
	waiting []waiting
}

// waiting is a stream that waits for Accept.
type waiting struct {
	*Conn
	stop func() // ends the watch for its client's end
}

func newBacklog() backlog { return backlog{ready: make(chan struct{}, 1)} }

// full reports whether there is no room for a stream of a circuit.
func (b *backlog) full(r *clientCircuit) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fullLocked(r)
}

func (b *backlog) fullLocked(r *clientCircuit) bool {
	mine := 0
	for _, w := range b.waiting {
		if w.r == r {
			mine++
		}
	}
	free := maxBacklog - len(b.waiting)
	return free <= 0 || mine >= 1+free/4
}

// add adds a stream, unless there is no room.
func (b *backlog) add(w waiting) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fullLocked(w.r) {
		return false
	}
	b.waiting = append(b.waiting, w)
	b.wake()
	return true
}

// wake wakes an Accept.
func (b *backlog) wake() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// take takes the stream that has waited for the longest time; nil: there is none.
func (b *backlog) take() *Conn {
	w, ok := b.first()
	if !ok {
		return nil
	}
	w.stop()
	return w.Conn
}

func (b *backlog) first() (w waiting, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return w, false
	}
	w = b.waiting[0]
	b.waiting = slices.Delete(b.waiting, 0, 1)
	if len(b.waiting) > 0 {
		b.wake() // another Accept, which may have missed the wake of this one
	}
	return w, true
}

// remove takes out a stream; false: it was taken.
func (b *backlog) remove(c *Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.waiting, func(w waiting) bool { return w.Conn == c })
	if i < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return true
}

// await has a stream wait for Accept, until its client goes or the service closes; false: there
// is no room.
func (s *Service) await(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	ctx, stop := c.Wanted(s.ctx)
	if !s.backlog.add(waiting{c, stop}) {
		stop()
		return false
	}
	s.wg.Add(1)
	context.AfterFunc(ctx, panics.Contain(s.log, nil, func() {
		defer s.wg.Done()
		if s.backlog.remove(c) {
			stop()
			_ = c.Close() // it is closed; this counts it
		}
	}))
	return true
}

// Accept returns the next stream to a port of Config.Ports. The client has been told
// that it is open, unless DeferConnected leaves this to the caller.
func (s *Service) Accept() (*Conn, error) {
	for s.ctx.Err() == nil {
		if c := s.backlog.take(); c != nil {
			return c, nil
		}
		select {
		case <-s.backlog.ready:
		case <-s.ctx.Done():
		}
	}
	return nil, errClosed
}
