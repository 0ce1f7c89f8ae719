package circuit

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// order counts the messages that come, and reports one that is not the next.
type order struct {
	deaf
	t    *testing.T
	next byte
}

func (o *order) HandleMessage(m cell.RelayMsg, _ time.Time) error {
	if len(m.Data) != 400 || m.Data[0] != o.next {
		o.t.Errorf("%d bytes, message %d instead of %d", len(m.Data), m.Data[0], o.next)
	}
	o.next++
	return nil
}

// reordering is a set of two legs that gets messages without circuits.
type reordering struct {
	*ConfluxSet
	legs [2]*leg
	data []byte
}

func newReordering(t *testing.T) *reordering {
	t.Helper()
	r := &reordering{ConfluxSet: newConfluxSet([32]byte{}, time.Now), data: make([]byte, 400)}
	for i := range r.legs {
		r.legs[i] = &leg{hop: &Hop{c: new(Circuit)}}
		r.legs[i].hop.c.batchAt = time.Now()
	}
	r.ConfluxSet.legs = r.legs[:]
	if err := r.legs[0].hop.AcceptStream(1, &order{t: t}); err != nil {
		t.Fatal(err)
	}
	return r
}

// take gives the set a message of the number that comes next on the leg.
func (r *reordering) take(t *testing.T, i int) {
	l := r.legs[i]
	r.data[0] = byte(l.recv)
	if err := r.orderLocked(l, l.hop, cell.RelayMsg{Cmd: cell.RelayData, Stream: 1, Data: r.data}); err != nil {
		t.Fatal(err)
	}
}

// TestReorderingAllocatesNothing: a set in use gets about every second message before its turn.
func TestReorderingAllocatesNothing(t *testing.T) {
	r := newReordering(t)
	round := func() {
		for i := range r.legs { // the second one is ahead, and then the first one
			slow, fast := i, 1-i
			const n = 100
			r.legs[fast].recv = r.delivered + n
			for range n {
				r.take(t, fast)
			}
			r.legs[slow].recv = r.delivered
			for range n {
				r.take(t, slow)
			}
			if r.waiting != 0 || r.delivered != r.legs[fast].recv {
				t.Fatalf("%d wait, %d were delivered", r.waiting, r.delivered)
			}
		}
	}
	round()
	// With the race detector, a pool loses every fourth thing that is put into it.
	if n := testing.AllocsPerRun(50, round); n > 100 {
		t.Errorf("%v allocations for 200 messages that came early", n)
	}
}

// TestEarlyLegsAlternate: two legs that are both ahead have what waits for one message, and
// their queues move on while they are not empty.
func TestEarlyLegsAlternate(t *testing.T) {
	r := newReordering(t)
	third := &leg{hop: &Hop{c: new(Circuit)}}
	third.hop.c.batchAt = time.Now()
	for round := range 40 {
		first := r.delivered
		for k := range uint64(40) {
			l := int(k % 2)
			r.legs[l].recv = first + 1 + k
			r.take(t, l)
		}
		if r.waiting != 40 {
			t.Fatalf("%d wait", r.waiting)
		}
		third.recv = first
		r.data[0] = byte(first)
		if err := r.orderLocked(third, third.hop, cell.RelayMsg{Cmd: cell.RelayData, Stream: 1, Data: r.data}); err != nil {
			t.Fatal(err)
		}
		if r.waiting != 0 || r.delivered != first+41 {
			t.Fatalf("round %d: %d wait, %d were delivered", round, r.waiting, r.delivered-first)
		}
	}
}

// TestEarlyQueue: a queue that is never empty finds each message, takes them in order, and does not
// grow.
func TestEarlyQueue(t *testing.T) {
	var q earlyQueue
	m := cell.RelayMsg{Cmd: cell.RelayData, Stream: 7, Data: []byte("abc")}
	for n := range uint64(10) {
		q.push(2*n, m)
	}
	for n := range uint64(10_000) {
		if q.has(2*n+1) || !q.has(2*n) || !q.has(2*n+18) || q.has(2*n+20) || q.take(2*n+2) != nil {
			t.Fatal("it has other messages than those that came")
		}
		e := q.take(2 * n)
		if e == nil || e.stream != 7 || e.cmd != cell.RelayData || string(e.data[:e.size]) != "abc" {
			t.Fatalf("message %d is %v", n, e)
		}
		q.push(2*n+20, m)
	}
	if cap(q.all) > 64 || len(q.waiting()) != 10 {
		t.Errorf("room for %d, %d wait", cap(q.all), len(q.waiting()))
	}
}
