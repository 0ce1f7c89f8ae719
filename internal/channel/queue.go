package channel

import (
	"sync"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
)

// recordCells is how many cells fill one TLS record: 31 * 514 = 15,934 bytes
// of the 16,384 that a record holds. A full slab is written as it is, without
// another copy.
const recordCells = 31

// smallCells is how many cells a small slab holds. Most circuits have no more than
// two cells waiting, and these must not need memory for a whole record.
const smallCells = 4

// middleCells is how many cells a middle slab holds: those of circuits that share a channel. They are sent in bursts of
// eight, not by whole records, and half a slab lies unused at both ends of each queue. 13 cells fill a size of Go's
// memory.
const middleCells = 13

// slab holds consecutive cells of one circuit.
type slab struct {
	next *slab
	b    []byte // space for recordCells, middleCells or smallCells cells
	r, w int    // bytes read and written; multiples of cell.Len
}

// slabHeader is the memory of a slab without its cells, in bytes.
const slabHeader = 64

var (
	slabPool   = sync.Pool{New: func() any { return &slab{b: make([]byte, recordCells*cell.Len)} }}
	middlePool = sync.Pool{New: func() any { return &slab{b: make([]byte, middleCells*cell.Len)} }}
	smallPool  = sync.Pool{New: func() any { return &slab{b: make([]byte, smallCells*cell.Len)} }}
)

func (s *slab) small() bool { return len(s.b) == smallCells*cell.Len }

func (s *slab) large() bool { return len(s.b) == recordCells*cell.Len }

// cost is the memory of the slab that its account counts, in bytes.
func (s *slab) cost() int { return len(s.b) + slabHeader }

func getSlab(pool *sync.Pool, a *account.Account) *slab {
	s := pool.Get().(*slab)
	s.next, s.r, s.w = nil, 0, 0
	a.Reserve(s.cost())
	return s
}

func putSlab(s *slab, a *account.Account) {
	a.Release(s.cost())
	s.next = nil
	switch {
	case s.small():
		smallPool.Put(s)
	case s.large():
		slabPool.Put(s)
	default:
		middlePool.Put(s)
	}
}

// cellQueue is a FIFO of cells. It holds no memory while it is empty; otherwise the
// account counts its memory. The channel's mutex guards it.
type cellQueue struct {
	account    *account.Account
	head, tail *slab
	n          int // cells
}

// push copies whole cells to the end. Only a queue of few cells is in a small
// slab; it moves into another one when it grows. shared says that other queues of the channel have cells, too.
func (q *cellQueue) push(cells []byte, shared bool) {
	q.n += len(cells) / cell.Len
	pool := &slabPool
	if shared {
		pool = &middlePool
	}
	switch {
	case len(cells) == 0:
	case q.tail == nil && len(cells) <= smallCells*cell.Len:
		q.tail = getSlab(&smallPool, q.account)
		q.head = q.tail
	case q.tail != nil && q.tail.small() && q.tail.w+len(cells) > len(q.tail.b):
		small, other := q.tail, getSlab(pool, q.account)
		other.w = copy(other.b, small.b[small.r:small.w])
		q.head, q.tail = other, other
		putSlab(small, q.account)
	}
	for len(cells) > 0 {
		if q.tail == nil || q.tail.w == len(q.tail.b) {
			s := getSlab(pool, q.account)
			if q.tail == nil {
				q.head = s
			} else {
				q.tail.next = s
			}
			q.tail = s
		}
		k := copy(q.tail.b[q.tail.w:], cells)
		q.tail.w += k
		cells = cells[k:]
	}
}

// pop copies up to len(dst) bytes of whole cells from the front and returns
// how many bytes it copied.
func (q *cellQueue) pop(dst []byte) int {
	done := 0
	for q.head != nil {
		s := q.head
		room := (len(dst) - done) / cell.Len * cell.Len
		if room == 0 {
			break
		}
		k := copy(dst[done:done+min(room, s.w-s.r)], s.b[s.r:s.w])
		s.r += k
		done += k
		if s.r == s.w {
			q.dropHead()
		}
	}
	q.n -= done / cell.Len
	return done
}

// popFull removes and returns the first slab if it is large and full; otherwise it
// returns nil. The caller gives the slab back with putSlab, with the queue's
// account.
func (q *cellQueue) popFull() *slab {
	s := q.head
	if s == nil || !s.large() || s.r != 0 || s.w != len(s.b) {
		return nil
	}
	q.head = s.next
	if q.head == nil {
		q.tail = nil
	}
	s.next = nil
	q.n -= recordCells
	return s
}

func (q *cellQueue) dropHead() {
	s := q.head
	q.head = s.next
	if q.head == nil {
		q.tail = nil
	}
	putSlab(s, q.account)
}

// clear drops every cell.
func (q *cellQueue) clear() {
	for q.head != nil {
		q.dropHead()
	}
	q.n = 0
}
