package lang

import (
	"encoding/binary"
	"math/bits"
)

// The coder works on chunks of bytes whose lengths both ends know. A chunk is
// a binary fraction; symbols narrow an interval until only fractions that
// begin with the chunk's bytes are left, and the chunk ends there: with the
// first symbol that makes it certain. Behind the chunk stands random padding,
// so that its last symbols are as random as the others.
//
// The interval is kept in a window of 64 bits over the fraction, which moves
// on by whole bytes: at position pos, the window covers bytes pos-8 to pos-1
// (the byte at -1 is zero). The width of the interval is 2^56 to 2^64 (near the
// end of a chunk 2^32 and more), and pos
// is 7 at the start of a chunk.
const (
	startPos   = 7
	startRange = 1 << 56
	// padBytes is how much padding the window can need: a chunk is certain
	// before the window has left it, or another padding is taken.
	padBytes = 8
)

// An Encoder turns chunks of bytes into one word of a language after another.
// It must not be used by several goroutines at once.
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

// interval is the state of a chunk's coding, common to both directions.
type interval struct {
	width uint64
	pos   int // bytes of the chunk and its padding that the window has taken in
}

// tailRange is the least width near the end of a chunk. There the window
// moves on late and far, so that an interval much narrower than a byte comes to
// lie in it whole, and the chunk is certain.
const tailRange = 1 << 32

// growTail is grow for single symbols of a chunk of n bytes.
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

// Append encodes a chunk and appends its symbols to dst. The other end must
// know len(src). The padding should be random; it is not secret. Equal state
// and arguments give equal symbols.
//
// Appending nothing appends no symbols.
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
		// The symbols' borders and a border between chunks are too close to
		// each other there; this is rare.
		e.q = q
		padding += 0x9e3779b97f4a7c15
	}
}

// literals appends the symbols that carry nothing, up to the first that does.
// One follows.
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

// chunk encodes src, and reports false if the padding does not serve.
func (e *Encoder) chunk(dst, src []byte, padding uint64) ([]byte, bool) {
	// tail holds the chunk's end and the padding: its first byte is byte
	// tailAt-1 of the chunk, which is zero before the chunk's start.
	var tail [64]byte
	tailAt := max(0, len(src)-40)
	n := 1 + copy(tail[1:], src[tailAt:])
	if tailAt > 0 {
		tail[0] = src[tailAt-1]
	}
	binary.BigEndian.PutUint64(tail[n:], padding)
	load := func(at int) uint64 {
		if at < tailAt-1 {
			return binary.BigEndian.Uint64(src[at:])
		}
		return binary.BigEndian.Uint64(tail[at-tailAt+1:])
	}

	iv := interval{width: startRange, pos: startPos}
	code := load(0) >> 8 // the fraction less the interval's start
	for {
		dst = e.literals(dst)
		st := &e.m.states[e.q]
		if iv.fast(len(src)) {
			if st.kind == kindRadix || st.kind == kindBits {
				dst, code = st.radixBlocks(dst, src, code, &iv)
			} else {
				dst, code = e.mixedPairs(dst, src, code, &iv)
			}
			continue
		}
		// One symbol at a time.
		var off, width, r uint64
		var last bool
		if st.kind == kindMixed {
			r = iv.width >> quantum
			s := st.find(min(code/r, 1<<quantum-1))
			off, width, last = uint64(s.cum), uint64(s.width), s.cum+s.width == 1<<quantum
			dst = append(dst, s.b)
			e.q = s.to
		} else {
			size := uint64(st.radix.size)
			r = iv.width / size
			off, width = min(code/r, size-1), 1
			last = off == size-1
			dst = append(dst, st.radix.symbols[off])
		}
		code -= r * off
		iv.narrow(r, off, width, last)
		certain := func() bool {
			if iv.pos < len(src) || iv.pos > len(src)+padBytes {
				return false
			}
			// The interval must lie between two borders of chunks.
			mask := ^uint64(0) >> (64 - 8*uint(iv.pos-len(src)))
			v := mask & load(iv.pos-8)
			return code <= v && iv.width-code-1 <= mask-v
		}
		if certain() {
			return dst, true
		}
		from := iv.pos
		if s := iv.growTail(len(src)); s > 0 {
			code = code<<s | load(from)>>(64-s)
			if certain() {
				return dst, true
			}
		}
		if iv.pos > len(src)+padBytes {
			return nil, false
		}
	}
}

// fast reports whether a chunk of n bytes is coded by groups of symbols at
// this position. Both ends go by it.
func (iv *interval) fast(n int) bool { return iv.pos >= 8 && iv.pos+16 <= n }

// narrow keeps the part of the interval from off*r on, which is width*r wide,
// or all the rest if it is the last part.
func (iv *interval) narrow(r, off, width uint64, last bool) {
	if last {
		iv.width -= r * off
	} else {
		iv.width = r * width
	}
}

// find returns the symbol that a scaled probability falls on.
func (st *modelState) find(s uint64) *symbol {
	k := int(st.guide[s>>guideShift])
	for s >= uint64(st.sym[k].cum+st.sym[k].width) {
		k++
	}
	return &st.sym[k]
}

// radixBlocks encodes groups of symbols of one radix while the chunk allows.
func (st *modelState) radixBlocks(dst, src []byte, code uint64, iv *interval) ([]byte, uint64) {
	total, inv, group, a := st.total, st.inv, st.group, st.radix
	w := *iv
	for w.fast(len(src)) {
		r, _ := bits.Mul64(w.width, inv)
		s := code / r
		if s >= total-1 {
			s = total - 1
			w.width -= r * s
		} else {
			w.width = r
		}
		code -= r * s
		at := len(dst)
		dst = append(dst, "0123456789abcdef0123456789abcdef"[:group]...)
		a.emit(dst[at:], s)
		next := binary.BigEndian.Uint64(src[w.pos:])
		shift := w.grow()
		code = code<<(shift&63) | next>>1>>(63-shift&63)
	}
	*iv = w
	return dst, code
}

// mixedPairs encodes symbols two at a time while the chunk allows and the
// automaton stays in states of kindMixed.
func (e *Encoder) mixedPairs(dst, src []byte, code uint64, iv *interval) ([]byte, uint64) {
	w, states, q := *iv, e.m.states, e.q
	for w.fast(len(src)) {
		st := &states[q]
		if st.kind != kindMixed {
			break
		}
		r := w.width >> (2 * quantum)
		s := min(code/r, 1<<(2*quantum)-1)
		var off, width uint64
		if st.pairs != nil {
			p := st.pairs.find(s)
			off, width, q = uint64(p.cum), uint64(p.width), p.to
			dst = append(dst, p.b[0], p.b[1])[:len(dst)+int(p.n)]
		} else {
			a := st.find(s >> quantum)
			off, width, q = uint64(a.cum)<<quantum, uint64(a.width)<<quantum, a.to
			dst = append(dst, a.b)
			if st = &states[q]; st.kind == kindMixed {
				rest := s - off
				if a.inv != 0 {
					rest, _ = bits.Mul64(rest, a.inv)
				}
				b := st.find(rest)
				off += uint64(a.width) * uint64(b.cum)
				width = uint64(a.width) * uint64(b.width)
				dst = append(dst, b.b)
				q = b.to
			}
		}
		code -= r * off
		w.narrow(r, off, width, off+width == 1<<(2*quantum))
		next := binary.BigEndian.Uint64(src[w.pos:])
		shift := w.grow()
		code = code<<(shift&63) | next>>1>>(63-shift&63)
	}
	*iv, e.q = w, q
	return dst, code
}

// Finish appends the symbols that end the word, as few as can be, and goes
// back to the start for the next word. Where several symbols serve, choice
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
