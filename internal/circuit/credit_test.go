package circuit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/flow"
)

// someCredit is a window of 600 cells with some credit.
type someCredit int

func (n someCredit) Available() int             { return int(n) }
func (someCredit) Sent(time.Time) bool          { return false }
func (someCredit) Sendme(time.Time, bool) error { return nil }
func (someCredit) State() flow.State            { return flow.State{Cwnd: 600} }

// hopsWith returns a circuit whose hops have such credit.
func hopsWith(credit ...someCredit) (*Circuit, []*Hop) {
	c := new(Circuit)
	var hops []*Hop
	for _, n := range credit {
		hops = append(hops, &Hop{c: c, send: n})
	}
	c.hops.Store(&hops)
	return c, hops
}

func waitFor(h *Hop) *Waiter {
	w := NewWaiter()
	h.enqueue(w)
	return w
}

// woken takes w's token.
func woken(w *Waiter) bool {
	select {
	case <-w.Wait():
		return true
	default:
		return false
	}
}

// TestCredit: enough credit for a batch wakes the stream that waits at once, less of it after
// the reader's batch, and none not at all.
func TestCredit(t *testing.T) {
	for _, v := range []struct {
		credit        someCredit
		during, after bool
	}{{0, false, false}, {31, false, true}, {batchCells, true, false}} {
		c, hops := hopsWith(v.credit)
		w := waitFor(hops[0])
		hops[0].credited()
		if got := woken(w); got != v.during {
			t.Errorf("credit of %d cells: woken at once: %v", v.credit, got)
		}
		c.endBatch()
		if got := woken(w); got != v.after {
			t.Errorf("credit of %d cells: woken after the batch: %v", v.credit, got)
		}
		c.endBatch()
		if woken(w) {
			t.Errorf("credit of %d cells: woken twice", v.credit)
		}
	}
}

// TestCreditOfTwoHops: each hop with credit that is less than a batch wakes its own stream.
func TestCreditOfTwoHops(t *testing.T) {
	c, hops := hopsWith(31, 31)
	var all []*Waiter
	for _, h := range hops {
		all = append(all, waitFor(h))
		h.credited()
	}
	c.endBatch()
	for i, w := range all {
		if !woken(w) {
			t.Errorf("hop %d: the stream was not woken", i)
		}
	}
}

// TestCreditOfOneWhoLeaves: a stream that was woken for credit and leaves the line without
// using it, because the peer has stopped it meanwhile or it was closed, leaves the credit to
// the next one. Nobody else wakes that one when all SENDMEs have come.
func TestCreditOfOneWhoLeaves(t *testing.T) {
	c, hops := hopsWith(600)
	first, next := waitFor(hops[0]), waitFor(hops[0])
	hops[0].credited()
	if !woken(first) {
		t.Fatal("the first stream was not woken")
	}
	hops[0].CancelWait(first)
	c.endBatch()
	if !woken(next) {
		t.Error("the window is open, and the stream that waits was not woken")
	}
}

// stopping is a stream that stops its channel's reader.
type stopping struct {
	deaf
	until chan struct{}
}

func (s stopping) HandleMessage(cell.RelayMsg, time.Time) error { <-s.until; return nil }

// TestRoomTakenByOneWhoLeaves: a stream whose last cells fill the channel's queue leaves the
// line, and the next one is woken once the queue has space. No SENDME would wake it: fewer
// cells went out than one acknowledges.
func TestRoomTakenByOneWhoLeaves(t *testing.T) {
	onRig(t, func(r *rig) {
		h := r.circuit(HopOptions{}, nil).Last()
		until := make(chan struct{})
		if err := r.last().Last().AcceptStream(1, stopping{until: until}); err != nil {
			t.Fatal(err)
		}
		send := func(w *Waiter, n int) {
			t.Helper()
			_, cells, err := h.SendData(w, 1, make([]byte, n*h.format.MaxData(true)), n)
			if err != nil || cells != n {
				t.Fatal(cells, err)
			}
			synctest.Wait()
		}
		for range 2 { // the writer waits with the second
			send(NewWaiter(), 1)
		}
		first, next := waitFor(h), waitFor(h)
		send(first, h.c.home.Load().Room())
		if woken(next) { // it may look, and goes on waiting
			if _, cells, err := h.SendData(next, 1, []byte{1}, 1); cells > 0 || err != nil {
				t.Fatal(cells, err)
			}
		}
		close(until)
		synctest.Wait()
		if h.SendFlow() == 0 || h.c.home.Load().Queued() > 0 || !woken(next) {
			t.Error("the queue is empty, and the stream that waits was not woken")
		}
	})
}
