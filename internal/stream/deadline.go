package stream

import (
	"sync"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// deadline is a net.Conn deadline that a select can wait on.
type deadline struct {
	mu    sync.Mutex // guards what follows
	timer *time.Timer
	c     chan struct{} // closed when the deadline has passed; nil: nobody has waited, and it was never set
}

// deadlines are those of a stream.
type deadlines struct{ read, write deadline }

// deadlines returns those of the stream, to wait for.
func (s *Stream) deadlines() *deadlines {
	if d := s.limits.Load(); d != nil {
		return d
	}
	s.limits.CompareAndSwap(nil, new(deadlines))
	return s.limits.Load()
}

// deadlinesFor is deadlines for a new deadline; nil: t is none, as the stream's are.
func (s *Stream) deadlinesFor(t time.Time) *deadlines {
	if d := s.limits.Load(); d != nil || t.IsZero() {
		return d
	}
	return s.deadlines()
}

// readOver and writeOver report whether a deadline has passed.
func (s *Stream) readOver() bool {
	d := s.limits.Load()
	return d != nil && d.read.over()
}

func (s *Stream) writeOver() bool {
	d := s.limits.Load()
	return d != nil && d.write.over()
}

// set moves the deadline; the zero time means none.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.c == nil && t.IsZero() {
		return
	}
	d.waitLocked()
	if d.timer != nil && !d.timer.Stop() {
		<-d.c // the timer fired, or is about to: let it finish
	}
	d.timer = nil
	select {
	case <-d.c:
		d.c = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	if wait := time.Until(t); wait > 0 {
		c := d.c
		d.timer = time.AfterFunc(wait, panics.Contain(nil, nil, func() { close(c) }))
		return
	}
	close(d.c)
}

// passed returns a channel that is closed when the deadline has passed.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waitLocked()
}

func (d *deadline) waitLocked() chan struct{} {
	if d.c == nil {
		d.c = make(chan struct{})
	}
	return d.c
}

// over reports whether the deadline has passed.
func (d *deadline) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.c != nil && isClosed(d.c)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
