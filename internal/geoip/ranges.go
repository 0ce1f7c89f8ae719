package geoip

import (
	"encoding/binary"
	"slices"
)

// perBlock is how many ranges a block has: a lookup reads half of one on average.
const perBlock = 32

// at is where a range begins: an address of 128 bits, the upper half first.
type at [2]uint64

func (a at) compare(b at) int {
	for i := range a {
		if a[i] != b[i] {
			if a[i] < b[i] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// ranges are neighbouring ranges of addresses, ascending, each with a country. A block of
// them begins with a whole address; the others say how far from the one before they
// begin, in few bytes, because most begin at round numbers.
type ranges struct {
	first []at     // where blocks begin; the first at 0
	bytes []uint32 // where the bytes of each block begin in data
	data  []byte   // of each range a number, country*ways+way, and what the way says

	n    int
	last at // the newest range
	is   uint16
}

// The ways to say where a range begins, after the first of a block.
const (
	wayRound = iota // the upper half is farther by a number times 65536; the lower half is 0
	wayUpper        // the upper half is farther by a number; the lower half is 0
	wayBoth         // as wayUpper, and 8 bytes of the lower half
	ways
)

// add appends a range that begins after the last one. A range of the same country is one
// with it.
func (r *ranges) add(begin at, is uint16) {
	if r.n > 0 && r.is == is {
		return
	}
	if r.n%perBlock == 0 {
		r.first = append(r.first, begin)
		r.bytes = append(r.bytes, uint32(len(r.data)))
		r.data = binary.AppendUvarint(r.data, uint64(is)*ways)
	} else {
		farther, way := begin[0]-r.last[0], uint64(wayUpper)
		switch {
		case begin[1] != 0:
			way = wayBoth
		case farther%(1<<16) == 0:
			way, farther = wayRound, farther>>16
		}
		r.data = binary.AppendUvarint(r.data, uint64(is)*ways+way)
		r.data = binary.AppendUvarint(r.data, farther)
		if way == wayBoth {
			r.data = binary.BigEndian.AppendUint64(r.data, begin[1])
		}
	}
	r.n, r.last, r.is = r.n+1, begin, is
}

// of returns the country of an address.
func (r *ranges) of(a at) (is uint16) {
	block, found := slices.BinarySearchFunc(r.first, a, at.compare)
	if !found {
		block--
	}
	for begin, country := range r.block(block) {
		if begin.compare(a) > 0 {
			break
		}
		is = country
	}
	return is
}

// block yields the ranges of a block.
func (r *ranges) block(i int) func(yield func(at, uint16) bool) {
	return func(yield func(at, uint16) bool) {
		data := r.data[r.bytes[i]:]
		if i+1 < len(r.bytes) {
			data = r.data[r.bytes[i]:r.bytes[i+1]]
		}
		number := func() uint64 {
			v, n := binary.Uvarint(data)
			data = data[n:]
			return v
		}
		begin := r.first[i]
		if !yield(begin, uint16(number()/ways)) {
			return
		}
		for len(data) > 0 {
			v := number()
			switch v % ways {
			case wayRound:
				begin = at{begin[0] + number()<<16, 0}
			case wayUpper:
				begin = at{begin[0] + number(), 0}
			case wayBoth:
				begin = at{begin[0] + number(), binary.BigEndian.Uint64(data)}
				data = data[8:]
			}
			if !yield(begin, uint16(v/ways)) {
				return
			}
		}
	}
}

// exact gives back the room for more ranges.
func (r *ranges) exact() {
	r.first, r.bytes, r.data = exact(r.first), exact(r.bytes), exact(r.data)
}

// exact returns a copy without room for more.
func exact[T any](s []T) []T { return append(make([]T, 0, len(s)), s...) }
