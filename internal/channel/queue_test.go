package channel

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
)

func numbered(from, n int) []byte {
	b := make([]byte, n*cell.Len)
	for i := range n {
		b[i*cell.Len+100] = byte(from + i)
		b[i*cell.Len+101] = byte((from + i) >> 8)
	}
	return b
}

// TestQueueKeepsOrder compares the queue with a plain slice over random pushes
// and pops of every kind.
func TestQueueKeepsOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	m := account.New(1 << 30)
	q := cellQueue{account: m.Address(netip.Addr{}).Open(account.Circuit, nil)}
	var want []byte
	next := 0
	for range 5000 {
		switch rnd.IntN(4) {
		case 0, 1:
			n := rnd.IntN(70) >> (rnd.IntN(4) * 2) // often a few
			b := numbered(next, n)
			next += n
			q.push(b, rnd.IntN(2) == 0)
			want = append(want, b...)
		case 2:
			dst := make([]byte, rnd.IntN(40)*cell.Len+rnd.IntN(cell.Len))
			n := q.pop(dst)
			if n%cell.Len != 0 || !bytes.Equal(dst[:n], want[:n]) {
				t.Fatal("popped cells differ")
			}
			if n < len(dst)/cell.Len*cell.Len && n != len(want) {
				t.Fatal("pop left cells that fit")
			}
			want = want[n:]
		case 3:
			if s := q.popFull(); s != nil {
				if !bytes.Equal(s.b[:], want[:len(s.b)]) {
					t.Fatal("the whole slab differs")
				}
				want = want[len(s.b):]
				putSlab(s, q.account)
			}
		}
		if q.n != len(want)/cell.Len || (q.n == 0) != (q.head == nil) {
			t.Fatalf("count %d, want %d; head %v", q.n, len(want)/cell.Len, q.head)
		}
		held := 0
		for s := q.head; s != nil; s = s.next {
			held += s.cost()
		}
		if held != int(m.Used()) {
			t.Fatalf("%d bytes are held, %d are on the account", held, m.Used())
		}
	}
	q.clear()
	if q.n != 0 || q.head != nil || q.tail != nil {
		t.Fatal("clear left cells")
	}
	if m.Used() != 0 {
		t.Fatalf("%d bytes are left on the account", m.Used())
	}
}

func TestQueueAllocatesNothing(t *testing.T) {
	var q cellQueue
	cells := numbered(0, 8)
	dst := make([]byte, 8*cell.Len)
	if n := testing.AllocsPerRun(1000, func() { q.push(cells, false); q.pop(dst) }); n >= 1 {
		t.Fatalf("%v allocations per run", n)
	}
}

// TestFewCellsHoldLittle: a circuit with a cell or two waiting does not hold a
// record's worth of memory.
func TestFewCellsHoldLittle(t *testing.T) {
	m := account.New(1 << 30)
	q := cellQueue{account: m.Address(netip.Addr{}).Open(account.Circuit, nil)}
	q.push(numbered(0, 1), true)
	q.push(numbered(1, 2), true)
	if got := m.Used(); got > 4*cell.Len+slabHeader {
		t.Errorf("3 cells hold %d bytes", got)
	}
	q.push(numbered(3, 30), false) // more: one large slab, and a second
	if got := m.Used(); got > 2*(recordCells*cell.Len+slabHeader) {
		t.Errorf("33 cells hold %d bytes", got)
	}
}

// TestSchedulerPrefersTheQuiet: the circuit that sent least lately is first,
// whatever the order of adding, and old traffic counts less than new.
func TestSchedulerPrefersTheQuiet(t *testing.T) {
	var s scheduler
	now := time.Unix(1000, 0)
	s.weight(now)
	circs := map[uint32]*CircuitEnd{}
	for i := range uint32(50) {
		c := &CircuitEnd{id: i, heapAt: -1, ewma: float64((i * 37) % 50)}
		circs[i] = c
		s.add(c)
	}
	s.remove(circs[13])
	s.remove(circs[13]) // no effect the second time
	last := -1.0
	for range 49 {
		c := s.min()
		if c.ewma < last || c.id == 13 {
			t.Fatalf("circuit %d with %v after %v", c.id, c.ewma, last)
		}
		last = c.ewma
		s.remove(c)
	}
	if s.min() != nil {
		t.Fatal("the heap must be empty")
	}

	bulk, later := &CircuitEnd{heapAt: -1}, &CircuitEnd{heapAt: -1}
	bulk.ewma += 100 * s.weight(now)
	later.ewma += 60 * s.weight(now.Add(ewmaHalflife)) // 100 old ones count as 50 by now
	s.add(later)
	s.add(bulk)
	if s.min() != bulk {
		t.Fatal("older traffic must count less")
	}
	before := bulk.ewma / later.ewma
	s.rescale(now.Add(300*ewmaHalflife), map[uint32]*CircuitEnd{1: bulk, 2: later})
	if after := bulk.ewma / later.ewma; after/before > 1.0001 || after/before < 0.9999 || bulk.ewma > 1 {
		t.Fatalf("rescaling changed the order: %v, %v", before, after)
	}
}

// TestSchedulerFirstCells: a circuit that had no cells queued sends a burst of
// its first ones before those who wait, whatever it sent before, and only one;
// and circuits that never have more than that do not keep the others waiting.
func TestSchedulerFirstCells(t *testing.T) {
	var s scheduler
	waits := &CircuitEnd{id: 1, heapAt: -1}
	s.add(waits)
	s.took(waits, burst, true)
	loud := &CircuitEnd{id: 2, heapAt: -1, ewma: 1e6}
	s.add(loud)
	if s.min() != loud {
		t.Fatal("first cells go before all others")
	}
	s.took(loud, burst, true)
	if s.min() != waits {
		t.Fatal("further cells do not")
	}
	s.remove(loud)

	// Two that always come back with less than a burst.
	brief := []*CircuitEnd{{id: 3, heapAt: -1, ewma: 100}, {id: 4, heapAt: -1, ewma: 100}}
	turns := map[*CircuitEnd]int{}
	for range 300 {
		for _, c := range brief {
			if c.heapAt < 0 {
				s.add(c)
			}
		}
		c := s.min()
		turns[c]++
		s.took(c, 1, c == waits)
	}
	if turns[waits] < 99 {
		t.Errorf("who waits had %d of 300 turns", turns[waits])
	}
}

// TestSharedQueueHoldsLittle: of a circuit that shares its channel, no more than a middle slab lies unused at both ends of
// the queue.
func TestSharedQueueHoldsLittle(t *testing.T) {
	m := account.New(1 << 30)
	q := cellQueue{account: m.Address(netip.Addr{}).Open(account.Circuit, nil)}
	dst := make([]byte, burst*cell.Len)
	for range 200 {
		q.push(numbered(0, 10), true)
		if q.n > 50 {
			for q.n > 5 {
				q.pop(dst)
			}
		}
		most := q.n*cell.Len + 2*middleCells*cell.Len + (q.n/middleCells+2)*slabHeader
		if got := int(m.Used()); got > most {
			t.Fatalf("%d cells hold %d bytes, and not %d", q.n, got, most)
		}
	}
}
