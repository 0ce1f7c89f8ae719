package lang

import "math/bits"

// The coder works on chunks of bytes whose lengths both ends know. A long chunk is
// cut into lanes. Each lane is coded by itself, and the lanes take turns with the
// symbols: a step of one lane does not wait for the result of another lane's step,
// so a processor executes them in parallel.
//
// A lane is a binary fraction; symbols narrow an interval until it has only
// fractions that begin with the lane's bytes. The lane ends with the first symbol
// that makes it certain. Random padding follows the lane's bytes, so that its last
// symbols are as random as the others.
//
// The interval is kept in a window of 64 bits over the fraction, which moves by
// whole bytes: at position pos, the window covers bytes pos-8 to pos-1 (the byte
// at -1 is zero). The width of the interval is 2^56 to 2^64 (near the end of a
// lane 2^32 and more), and pos is 7 at the start of a lane.
//
// The turns: first each lane in order is coded symbol by symbol until its window
// lies inside the lane. Then, in each round, every lane codes one group of
// symbols, as long as all lanes are fast at the round's start. At last each lane
// in order is coded to its end. A chunk of one lane has only this last part.
const (
	startPos   = 7
	startRange = 1 << 56
	// padBytes is how many bytes of padding the window can need: a lane becomes
	// certain before the window has left it, or the encoder tries another padding.
	padBytes = 8
	// maxLanes is how many lanes a chunk of at least manyLanes bytes has. A
	// shorter chunk has one.
	maxLanes  = 4
	manyLanes = 1024
)

// phase is the present part of a chunk's coding.
type phase uint8

const (
	phaseOpen   phase = iota // one after another, until the window is inside
	phaseRounds              // in turns, group by group
	phaseClose               // one after another, to the end
)

// laneCount returns how many lanes a chunk of n bytes has, and the phase in which
// they begin.
func laneCount(n int) (int, phase) {
	if n < manyLanes {
		return 1, phaseClose
	}
	return maxLanes, phaseOpen
}

// laneOf returns the bytes of lane i of count, and their offset in the chunk.
func laneOf(chunk []byte, i, count int) (from int, lane []byte) {
	from, to := i*len(chunk)/count, (i+1)*len(chunk)/count
	return from, chunk[from:to:to]
}

// interval is the state of a lane's coding, common to both directions.
type interval struct {
	width uint64
	pos   int // bytes of the lane and its padding that have entered the window
}

// inside reports whether the window has left the byte at -1.
func (iv *interval) inside() bool { return iv.pos >= 8 }

// fast reports whether a lane of n bytes is coded by groups of symbols at this
// position. Encoder and decoder use the same rule.
func (iv *interval) fast(n int) bool { return iv.pos >= 8 && iv.pos+16 <= n }

// safe returns how many groups a lane of n bytes can code while it is fast before
// each of them: a group narrows the interval by at most 2^32, so it moves the
// window by at most four bytes.
func (iv *interval) safe(n int) int {
	if !iv.fast(n) {
		return 0
	}
	return (n-16-iv.pos)/4 + 1
}

// tailRange is the least width near the end of a lane. There the window moves late
// and far, so that it can contain the whole of an interval that is much narrower
// than a byte; this makes the lane certain.
const tailRange = 1 << 32

// growTail is grow for single symbols of a lane of n bytes.
func (iv *interval) growTail(n int) uint {
	if iv.pos+16 > n && iv.width >= tailRange {
		return 0
	}
	return iv.grow()
}

// grow returns by how many bits the window moves, a multiple of 8.
func (iv *interval) grow() uint {
	// A width is never 0. With the mask, the shift is one instruction.
	s := uint(bits.LeadingZeros64(iv.width)) & 0x38
	iv.width <<= s & 63
	iv.pos += int(s >> 3)
	return s
}

// narrow keeps the part of the interval that begins at off*r and is width*r wide,
// or all the rest if it is the last part.
func (iv *interval) narrow(r, off, width uint64, last bool) {
	if last {
		iv.width -= r * off
	} else {
		iv.width = r * width
	}
}
