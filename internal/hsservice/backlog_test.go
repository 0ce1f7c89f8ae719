package hsservice

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/fault"
)

func waits(c *Conn) waiting { return waiting{c, func() {}} }

// TestBacklog: streams wait for Accept in the order in which they came, up to a bound; one whose
// client goes leaves the line, unless it was taken.
func TestBacklog(t *testing.T) {
	b := newBacklog()
	all := make([]*Conn, maxBacklog+1)
	for i := range all {
		all[i] = &Conn{port: uint16(i)}
		if got := b.add(waits(all[i])); got != (i < maxBacklog) || b.full() != (i >= maxBacklog-1) {
			t.Fatalf("stream %d is taken in: %t, and it is full: %t", i, got, b.full())
		}
	}
	if !b.remove(all[1]) || b.remove(all[1]) {
		t.Error("a stream does not leave once")
	}
	if b.take() != all[0] || b.take() != all[2] {
		t.Error("another order")
	}
	if b.remove(all[2]) {
		t.Error("a stream leaves that was taken")
	}
}

// TestAcceptWakesAll: when several streams come at once, all who wait in Accept have one; when
// the service closes, the others return.
func TestAcceptWakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Service{backlog: newBacklog()}
		s.ctx, s.cancel = context.WithCancelCause(t.Context())
		got := make(chan error)
		for range 3 {
			go func() {
				_, err := s.Accept()
				got <- err
			}()
		}
		synctest.Wait()
		two := func() {
			s.backlog.mu.Lock()
			defer s.backlog.mu.Unlock()
			s.backlog.waiting = append(s.backlog.waiting, waits(new(Conn)), waits(new(Conn)))
			s.backlog.wake()
		}
		two()
		for range 2 {
			if err := <-got; err != nil {
				t.Error(err)
			}
		}
		s.cancel(errClosed)
		if err := <-got; !fault.Is(err, fault.Closed) {
			t.Error(err)
		}
	})
}
