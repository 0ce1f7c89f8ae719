package lang

import (
	"encoding/binary"
	"math/bits"
)

// An Encoder turns chunks of bytes into a sequence of words of a language. Only
// one goroutine may use it at a time.
type Encoder struct {
	m *model
	q int32
}

// NewEncoder returns an Encoder at the start of a word. It returns an error of
// kind fault.Config if the language has no long words with choices in them.
func (l *Language) NewEncoder() (*Encoder, error) {
	m, err := l.streamModel()
	if err != nil {
		return nil, err
	}
	return &Encoder{m: m}, nil
}

// Append encodes a chunk and appends its symbols to dst. The other end must
// know len(src). The padding should be random; it is not secret. Equal state
// and arguments give equal symbols.
//
// An empty chunk appends no symbols.
func (e *Encoder) Append(dst, src []byte, padding uint64) []byte {
	if len(src) == 0 {
		return dst
	}
	dst = e.literals(dst)
	if st := &e.m.states[e.q]; st.kind == kindBits {
		return st.radix.appendBits(dst, src, padding)
	}
	mark, q := len(dst), e.q
	for {
		dst, ok := e.chunk(dst[:mark], src, padding)
		if ok {
			return dst
		}
		// Here the symbols' borders and a border between chunks are too close to
		// each other. This is rare.
		e.q = q
		padding += 0x9e3779b97f4a7c15
	}
}

// literals appends the symbols that carry no bits, up to the first that does.
// There always is such a symbol.
func (e *Encoder) literals(dst []byte) []byte {
	for {
		switch st := &e.m.states[e.q]; st.kind {
		case kindForced:
			dst = append(dst, st.forced)
			e.q = st.to
		case kindEnter:
			e.q = st.to
		default:
			return dst
		}
	}
}

// chunk encodes src, and reports false if this padding does not work.
func (e *Encoder) chunk(dst, src []byte, padding uint64) ([]byte, bool) {
	var all [maxLanes]encLane
	count, phase := laneCount(len(src))
	lanes := all[:count]
	for i := range lanes {
		// Each lane has its own padding, made from the chunk's by a bijection.
		lanes[i].begin(src, i, count, padding*(2*uint64(i)+1)^uint64(i))
	}
	if phase == phaseOpen {
		for i := range lanes {
			for !lanes[i].iv.inside() {
				dst, _ = e.symbol(dst, &lanes[i])
			}
		}
		dst = e.rounds(dst, lanes)
	}
	for i := range lanes {
		l := &lanes[i]
		for certain := false; !certain; {
			dst = e.rounds(dst, lanes[i:i+1])
			if l.iv.pos > len(l.src)+padBytes {
				return nil, false
			}
			dst, certain = e.symbol(dst, l)
		}
	}
	return dst, true
}

// rounds encodes groups of symbols, a group for each lane in turn, while all
// lanes are fast.
func (e *Encoder) rounds(dst []byte, lanes []encLane) []byte {
	for {
		n := lanes[0].iv.safe(len(lanes[0].src))
		for i := range lanes[1:] {
			l := &lanes[i+1]
			n = min(n, l.iv.safe(len(l.src)))
		}
		if n == 0 {
			return dst
		}
		dst = e.literals(dst)
		if st := &e.m.states[e.q]; st.radix != nil {
			dst = st.radixRounds(dst, lanes, n)
		} else {
			dst = e.mixedRounds(dst, lanes, n)
		}
	}
}

// Finish appends the symbols that end the word, as few as possible, and goes back
// to the start for the next word. Where several symbols are possible, choice
// decides; it should be random.
func (e *Encoder) Finish(dst []byte, choice uint64) []byte {
	m := e.m
	for d := m.finish[e.q]; d > 0; d-- {
		var ways []byte
		for _, b := range m.lang.order {
			if t := m.lang.flat[int(e.q)<<8|int(b)]; t != dead && m.finish[t] == d-1 {
				ways = append(ways, b)
			}
		}
		hi, lo := bits.Mul64(choice, uint64(len(ways)))
		choice = lo
		dst = append(dst, ways[hi])
		e.q = m.lang.flat[int(e.q)<<8|int(ways[hi])]
	}
	e.q = 0
	return dst
}

// Accepting reports whether the symbols so far are a word.
func (e *Encoder) Accepting() bool { return e.m.lang.d.accept[e.q] }

// encLane is the encoding of one lane.
type encLane struct {
	iv   interval
	code uint64 // the fraction minus the interval's start
	// src is the lane's part of its chunk.
	src, chunk []byte
	from       int
	// tail holds the lane's end and the padding: its first byte is byte
	// tailAt-1 of the lane, which is zero before the lane's start.
	tail   [64]byte
	tailAt int
}

// begin starts lane i of count.
func (l *encLane) begin(chunk []byte, i, count int, padding uint64) {
	l.chunk = chunk
	l.from, l.src = laneOf(chunk, i, count)
	src := l.src
	l.tailAt = max(0, len(src)-40)
	n := 1 + copy(l.tail[1:], src[l.tailAt:])
	if l.tailAt > 0 {
		l.tail[0] = src[l.tailAt-1]
	}
	binary.BigEndian.PutUint64(l.tail[n:], padding)
	l.iv = interval{width: startRange, pos: startPos}
	l.code = l.load(0) >> 8
}

// load returns eight bytes of the lane and its padding.
func (l *encLane) load(at int) uint64 {
	if at < l.tailAt-1 {
		return binary.BigEndian.Uint64(l.src[at:])
	}
	return binary.BigEndian.Uint64(l.tail[at-l.tailAt+1:])
}

// certain reports whether the interval lies between two borders of chunks.
func (l *encLane) certain() bool {
	n := len(l.src)
	if l.iv.pos < n || l.iv.pos > n+padBytes {
		return false
	}
	mask := ^uint64(0) >> (64 - 8*uint(l.iv.pos-n))
	v := mask & l.load(l.iv.pos-8)
	return l.code <= v && l.iv.width-l.code-1 <= mask-v
}

// symbol encodes one symbol, and reports whether the lane is certain.
func (e *Encoder) symbol(dst []byte, l *encLane) (_ []byte, certain bool) {
	dst = e.literals(dst)
	st := &e.m.states[e.q]
	var off, width, r uint64
	var last bool
	if st.kind == kindMixed {
		r = l.iv.width >> quantum
		s := st.find(min(l.code/r, 1<<quantum-1))
		off, width, last = uint64(s.cum), uint64(s.width), s.cum+s.width == 1<<quantum
		dst = append(dst, s.b)
		e.q = s.to
	} else {
		size := uint64(st.radix.size)
		r = l.iv.width / size
		off, width = min(l.code/r, size-1), 1
		last = off == size-1
		dst = append(dst, st.radix.symbols[off])
	}
	l.code -= r * off
	l.iv.narrow(r, off, width, last)
	if l.certain() {
		return dst, true
	}
	from := l.iv.pos
	if s := l.iv.growTail(len(l.src)); s > 0 {
		l.code = l.code<<s | l.load(from)>>(64-s)
		return dst, l.certain()
	}
	return dst, false
}

// find returns the symbol whose part of the range contains a scaled probability.
func (st *modelState) find(s uint64) *symbol {
	k := int(st.guide[s>>guideShift])
	for s >= uint64(st.sym[k].cum+st.sym[k].width) {
		k++
	}
	return &st.sym[k]
}
