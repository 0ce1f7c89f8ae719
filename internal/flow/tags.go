package flow

import (
	"crypto/subtle"

	"github.com/chivenet/chive/internal/fault"
)

// maxTag is the length of the longest tag, tor1's, in bytes.
const maxTag = 20

// TagQueue holds the tags that the next SENDMEs must carry, oldest first: one tag
// for every SENDME that its Sender waits for. The sender's window bounds it.
type TagQueue struct {
	ring  []tag // length is a power of two, or zero
	first int
	n     int
}

type tag struct {
	b [maxTag]byte
	n uint8
}

// Len returns the number of tags in the queue.
func (q *TagQueue) Len() int { return q.n }

// Push appends a copy of a tag of 16 (CGO) or 20 (tor1) bytes.
func (q *TagQueue) Push(t []byte) {
	if q.n == len(q.ring) {
		bigger := make([]tag, max(16, 2*len(q.ring)))
		for i := range q.n {
			bigger[i] = q.ring[(q.first+i)&(len(q.ring)-1)]
		}
		q.ring, q.first = bigger, 0
	}
	e := &q.ring[(q.first+q.n)&(len(q.ring)-1)]
	e.n = uint8(copy(e.b[:], t))
	q.n++
}

// Check removes the oldest tag and compares it, in constant time, with the tag of
// a SENDME. An error is a violation of the protocol: the peer acknowledges cells
// that it did not receive (proposal 289).
func (q *TagQueue) Check(t []byte) error {
	e := q.take()
	if e == nil {
		return errNoneDue
	}
	if subtle.ConstantTimeCompare(e.b[:e.n], t) != 1 {
		return fault.New(fault.Protocol, "SENDME: wrong tag")
	}
	return nil
}

// Skip removes the oldest tag for a SENDME that has none.
func (q *TagQueue) Skip() error {
	if q.take() == nil {
		return errNoneDue
	}
	return nil
}

var errNoneDue = fault.New(fault.Protocol, "SENDME: none is due")

// take removes and returns the oldest tag; nil: there is none.
func (q *TagQueue) take() *tag {
	if q.n == 0 {
		return nil
	}
	e := &q.ring[q.first]
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.n--
	return e
}
