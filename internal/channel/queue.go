package channel

import (
	"sync"

	"github.com/chivenet/chive/internal/cell"
)

// recordCells is how many cells fill one TLS record: 31 * 514 = 15,934 bytes
// of the 16,384 that a record holds.
const recordCells = 31

// slab holds up to one record of consecutive cells of one circuit. A full slab
// is written as it is, without another copy.
type slab struct {
	b    [recordCells * cell.Len]byte
	r, w int // bytes read and written; multiples of cell.Len
	next *slab
}

var slabPool = sync.Pool{New: func() any { return new(slab) }}

func getSlab() *slab {
	s := slabPool.Get().(*slab)
	s.r, s.w, s.next = 0, 0, nil
	return s
}

func putSlab(s *slab) { s.next = nil; slabPool.Put(s) }

// cellQueue is a FIFO of cells. It holds no memory while it is empty. The
// channel's mutex guards it.
type cellQueue struct {
	head, tail *slab
	n          int // cells
}

// push copies whole cells to the end.
func (q *cellQueue) push(cells []byte) {
	q.n += len(cells) / cell.Len
	for len(cells) > 0 {
		if q.tail == nil || q.tail.w == len(q.tail.b) {
			s := getSlab()
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

// popFull takes the first slab whole when it is full and untouched, else
// returns nil. The caller returns it by putSlab.
func (q *cellQueue) popFull() *slab {
	s := q.head
	if s == nil || s.r != 0 || s.w != len(s.b) {
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
	putSlab(s)
}

// clear drops every cell.
func (q *cellQueue) clear() {
	for q.head != nil {
		q.dropHead()
	}
	q.n = 0
}
