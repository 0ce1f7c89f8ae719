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
		all[i] = &Conn{port: uint16(i), r: new(clientCircuit)}
		if got := b.add(waits(all[i])); got != (i < maxBacklog) || b.full(nil) != (i >= maxBacklog-1) {
			t.Fatalf("stream %d is taken in: %t, and it is full: %t", i, got, b.full(nil))
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

// TestBacklogOfOneClient: a client that opens streams without end, while the program is slow to accept
// them, leaves room for others, and the more clients do so, the less each has.
func TestBacklogOfOneClient(t *testing.T) {
	b := newBacklog()
	fill := func() (n int) {
		for r := new(clientCircuit); b.add(waits(&Conn{r: r})); n++ {
		}
		return n
	}
	first, second := fill(), fill()
	if first < maxBacklog/8 || first > maxBacklog/4 || second > first || second < maxBacklog/16 {
		t.Errorf("the first client has %d of %d places, and the second %d", first, maxBacklog, second)
	}
	honest := new(clientCircuit)
	if b.full(honest) || !b.add(waits(&Conn{r: honest})) {
		t.Error("there is no place for one stream of another client")
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
