package flow

import (
	"crypto/subtle"

	"github.com/chivenet/chive/internal/fault"
)

// maxTag is the length of the longest tag, tor1's, in bytes.
const maxTag = 20

// TagQueue holds the tags that the next SENDMEs must carry, oldest first: one tag
// for every SENDME that its Sender waits for. The sender's window bounds it. It is small
// until the first tag, because many circuits never send so much.
type TagQueue struct{ r *tagRing }

type tagRing struct {
	tags  []tag // length is a power of two
	first int
	n     int
}

type tag struct {
	b [maxTag]byte
	n uint8
}

// Len returns the number of tags in the queue.
func (q *TagQueue) Len() int {
	if q.r == nil {
		return 0
	}
	return q.r.n
}

// Push appends a copy of a tag of 16 (CGO) or 20 (tor1) bytes.
func (q *TagQueue) Push(t []byte) {
	if q.r == nil {
		q.r = new(tagRing)
	}
	r := q.r
	if r.n == len(r.tags) {
		bigger := make([]tag, max(16, 2*len(r.tags)))
		for i := range r.n {
			bigger[i] = r.tags[(r.first+i)&(len(r.tags)-1)]
		}
		r.tags, r.first = bigger, 0
	}
	e := &r.tags[(r.first+r.n)&(len(r.tags)-1)]
	e.n = uint8(copy(e.b[:], t))
	r.n++
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
	if q.Len() == 0 {
		return nil
	}
	r := q.r
	e := &r.tags[r.first]
	r.first = (r.first + 1) & (len(r.tags) - 1)
	r.n--
	return e
}
