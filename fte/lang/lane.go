package lang

import "math/bits"

// The coder works on chunks of bytes whose lengths both ends know. A long
// chunk is cut into lanes, which are coded each by itself and take turns with
// the symbols: what one lane does next does not wait for what another one has
// just done, and a processor does them at once.
//
// A lane is a binary fraction; symbols narrow an interval until only fractions
// that begin with the lane's bytes are left, and the lane ends there: with the
// first symbol that makes it certain. Behind the lane stands random padding,
// so that its last symbols are as random as the others.
//
// The interval is kept in a window of 64 bits over the fraction, which moves
// on by whole bytes: at position pos, the window covers bytes pos-8 to pos-1
// (the byte at -1 is zero). The width of the interval is 2^56 to 2^64 (near the
// end of a lane 2^32 and more), and pos is 7 at the start of a lane.
//
// The turns: first each lane in order is coded symbol by symbol until its
// window lies inside of it. Then all code a group of symbols in each round,
// while every one is fast at the round's start. Then each in order is coded to
// its end. A chunk of one lane has the last part only.
const (
	startPos   = 7
	startRange = 1 << 56
	// padBytes is how much padding the window can need: a lane is certain
	// before the window has left it, or another padding is taken.
	padBytes = 8
	// maxLanes is how many lanes a chunk of at least manyLanes bytes has;
	// another has one.
	maxLanes  = 4
	manyLanes = 1024
)

// phase is what the lanes of a chunk do.
type phase uint8

const (
	phaseOpen   phase = iota // one after another, until the window is inside
	phaseRounds              // in turn
	phaseClose               // one after another, to the end
)

// laneCount returns how many lanes a chunk of n bytes has, and how they begin.
func laneCount(n int) (int, phase) {
	if n < manyLanes {
		return 1, phaseClose
	}
	return maxLanes, phaseOpen
}

// laneOf returns the bytes of lane i of count, and where they begin.
func laneOf(chunk []byte, i, count int) (from int, lane []byte) {
	from, to := i*len(chunk)/count, (i+1)*len(chunk)/count
	return from, chunk[from:to:to]
}

// interval is the state of a lane's coding, common to both directions.
type interval struct {
	width uint64
	pos   int // bytes of the lane and its padding that the window has taken in
}

// inside reports whether the window has left the byte at -1.
func (iv *interval) inside() bool { return iv.pos >= 8 }

// fast reports whether a lane of n bytes is coded by groups of symbols at
// this position. Both ends go by it.
func (iv *interval) fast(n int) bool { return iv.pos >= 8 && iv.pos+16 <= n }

// safe returns how many groups a lane of n bytes can code and be fast before
// each: a group narrows the interval by at most 2^32, so it moves the window
// on by at most four bytes.
func (iv *interval) safe(n int) int {
	if !iv.fast(n) {
		return 0
	}
	return (n-16-iv.pos)/4 + 1
}

// tailRange is the least width near the end of a lane. There the window
// moves on late and far, so that an interval much narrower than a byte comes to
// lie in it whole, and the lane is certain.
const tailRange = 1 << 32

// growTail is grow for single symbols of a lane of n bytes.
func (iv *interval) growTail(n int) uint {
	if iv.pos+16 > n && iv.width >= tailRange {
		return 0
	}
	return iv.grow()
}

// grow returns by how many bits the window moves on, which is a multiple of 8.
func (iv *interval) grow() uint {
	// A width is never 0. Masked, the shift is one instruction.
	s := uint(bits.LeadingZeros64(iv.width)) & 0x38
	iv.width <<= s & 63
	iv.pos += int(s >> 3)
	return s
}

// narrow keeps the part of the interval from off*r on, which is width*r wide,
// or all the rest if it is the last part.
func (iv *interval) narrow(r, off, width uint64, last bool) {
	if last {
		iv.width -= r * off
	} else {
		iv.width = r * width
	}
}
