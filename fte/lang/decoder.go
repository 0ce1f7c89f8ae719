package lang

import (
	"encoding/binary"
	"math/bits"

	"github.com/chivenet/chive/internal/fault"
)

// A Decoder turns the words of an [Encoder] back into chunks of bytes. It must
// not be used by several goroutines at once.
//
// Begin says how long the next chunk is and where it goes; Write takes the
// symbols as they come.
type Decoder struct {
	m *model
	q int32

	dst     []byte // the chunk
	active  bool   // the chunk is not complete
	bits    bool   // the chunk is coded as bits
	started bool   // the first symbol that carries something has come
	iv      interval
	low     uint64 // the interval's start, in the window
	// part holds symbols that wait for the rest of their group. They are known
	// to go on from q.
	part  [32]byte
	nPart int
	err   error
}

// NewDecoder returns a Decoder at the start of a word. The errors are those of
// NewEncoder.
func (l *Language) NewDecoder() (*Decoder, error) {
	m, err := l.streamModel()
	if err != nil {
		return nil, err
	}
	return &Decoder{m: m}, nil
}

// Begin starts a chunk that fills dst, after the last chunk is complete. The
// content of dst is undefined until this one is.
func (d *Decoder) Begin(dst []byte) {
	d.dst, d.active = dst, len(dst) > 0
	d.started, d.nPart = false, 0
}

// errNoStream is what a decoder says of symbols that no encoder sends.
var errNoStream = fault.New(fault.Protocol, "the bytes are no stream of the language")

// Write takes symbols of the current chunk. It returns how many it took, and
// whether the chunk is complete: then the rest is for what follows. It takes
// all of them while the chunk is not complete.
//
// A symbol that no encoder sends there is an error of kind fault.Protocol, at
// once; n is its offset or up to a group of symbols before it. A decoder that
// has failed fails for ever.
func (d *Decoder) Write(symbols []byte) (n int, done bool, err error) {
	if d.err != nil {
		return 0, false, d.err
	}
	if !d.active {
		return 0, true, nil
	}
	if !d.started {
		if n, err = d.literals(symbols, 0); err != nil || n == len(symbols) {
			return n, false, err
		}
		st := &d.m.states[d.q]
		d.started = true
		d.iv, d.low = interval{width: startRange, pos: startPos}, 0
		d.bits = st.kind == kindBits
	}
	k := 0
	if d.bits {
		k, done, err = d.writeBits(symbols[n:])
	} else {
		k, done, err = d.writeChunk(symbols[n:])
	}
	if done {
		d.active, d.dst = false, nil
	}
	return n + k, done, err
}

// literals takes the symbols that carry nothing, from offset n on, up to the
// first that does. It stops short at the end of the symbols.
func (d *Decoder) literals(symbols []byte, n int) (int, error) {
	for n < len(symbols) {
		st := &d.m.states[d.q]
		switch {
		case st.kind == kindEnter:
			d.q = st.to
			continue
		case st.kind != kindForced:
			return n, nil
		case symbols[n] != st.forced:
			_, _, err := d.fail(n)
			return n, err
		}
		d.q = st.to
		n++
	}
	return n, nil
}

// fail makes the decoder fail for ever.
func (d *Decoder) fail(n int) (int, bool, error) {
	d.err = errNoStream
	return n, false, d.err
}

// writeBits takes symbols of a chunk that is coded as bits. iv.pos is unused;
// what has come is decoded by groups of eight symbols.
func (d *Decoder) writeBits(symbols []byte) (n int, done bool, err error) {
	a := d.m.states[d.q].radix
	k := a.log2
	// Complete the group that waits.
	for d.nPart > 0 && n < len(symbols) {
		need := min(8, a.bitSymbols(len(d.dst)))
		if d.nPart == need {
			break
		}
		if a.digit[symbols[n]] == noSymbol {
			return d.fail(n)
		}
		d.part[d.nPart] = symbols[n]
		d.nPart++
		n++
	}
	if d.nPart > 0 && d.nPart == min(8, a.bitSymbols(len(d.dst))) {
		size := min(k, len(d.dst))
		if _, ok := a.readBits(d.dst[:size], d.part[:d.nPart]); !ok {
			return d.fail(n)
		}
		d.dst, d.nPart = d.dst[size:], 0
		if len(d.dst) == 0 {
			return n, true, nil
		}
	}
	if n == len(symbols) {
		return n, false, nil
	}
	rest := symbols[n:]
	if len(rest) >= a.bitSymbols(len(d.dst)) {
		m, ok := a.readBits(d.dst, rest)
		if !ok {
			return d.fail(n + m)
		}
		return n + m, true, nil
	}
	groups := len(rest) / 8
	m, ok := a.readBits(d.dst[:groups*k], rest)
	if !ok {
		return d.fail(n + m)
	}
	d.dst = d.dst[groups*k:]
	for n += m; n < len(symbols); n++ {
		if a.digit[symbols[n]] == noSymbol {
			return d.fail(n)
		}
		d.part[d.nPart] = symbols[n]
		d.nPart++
	}
	return n, false, nil
}

// writeChunk takes symbols of a chunk that is coded by intervals.
func (d *Decoder) writeChunk(symbols []byte) (n int, done bool, err error) {
	for d.nPart > 0 && n < len(symbols) {
		// A group waits: add symbols to it until it is complete.
		d.part[d.nPart] = symbols[n]
		d.nPart++
		n++
		used, done, err := d.run(d.part[:d.nPart])
		if err != nil || done {
			return n, done, err
		}
		d.nPart = copy(d.part[:], d.part[used:d.nPart])
	}
	used, done, err := d.run(symbols[n:])
	n += used
	if err != nil || done {
		return n, done, err
	}
	d.nPart += copy(d.part[d.nPart:], symbols[n:])
	return len(symbols), false, nil
}

// run decodes whole groups. What it leaves is less than a group and goes on
// from the automaton's state.
func (d *Decoder) run(symbols []byte) (n int, done bool, err error) {
	for {
		if n, err = d.literals(symbols, n); err != nil || n == len(symbols) {
			return n, false, err
		}
		st := &d.m.states[d.q]
		if d.iv.fast(len(d.dst)) {
			k, ok := 0, false
			if st.kind == kindMixed {
				k, ok = d.mixedPairs(symbols[n:])
			} else {
				k, ok = d.radixBlocks(st, symbols[n:])
			}
			n += k
			if !ok {
				return d.fail(n)
			}
			if k == 0 {
				return n, false, nil // less than a group is left
			}
			continue
		}
		var off, width, r uint64
		var last bool
		if st.kind == kindMixed {
			i := st.index[symbols[n]]
			if i == noSymbol {
				return d.fail(n)
			}
			s := &st.sym[i]
			r = d.iv.width >> quantum
			off, width, last = uint64(s.cum), uint64(s.width), s.cum+s.width == 1<<quantum
			d.q = s.to
		} else {
			i := st.radix.digit[symbols[n]]
			if i == noSymbol {
				return d.fail(n)
			}
			size := uint64(st.radix.size)
			r = d.iv.width / size
			off, width, last = uint64(i), 1, uint64(i) == size-1
		}
		n++
		done, ok := d.step(r*off, r, off, width, last)
		if !ok {
			return d.fail(n)
		}
		if done {
			return n, true, nil
		}
	}
}

// step narrows the interval by one symbol near the chunk's ends, and reports
// whether the chunk is certain; ok is false if it never will be.
func (d *Decoder) step(add, r, off, width uint64, last bool) (done, ok bool) {
	low, carry := bits.Add64(d.low, add, 0)
	if carry != 0 && !d.carry(d.iv.pos-9) {
		return false, false
	}
	d.iv.narrow(r, off, width, last)
	if d.low = low; d.certain() {
		return true, true
	}
	from := d.iv.pos
	if s := d.iv.growTail(len(d.dst)); s > 0 {
		d.store(from)
		if d.low = low << s; d.certain() {
			return true, true
		}
	}
	return false, d.iv.pos <= len(d.dst)+padBytes
}

// store writes the window at pos into the chunk, as far as they overlap. The
// byte at -1 is zero: the interval is below 1.
func (d *Decoder) store(pos int) {
	for i := range 8 {
		if at := pos - 8 + i; at >= 0 && at < len(d.dst) {
			d.dst[at] = byte(d.low >> (56 - 8*uint(i)))
		}
	}
}

// certain reports whether the interval lies between two borders of chunks, and
// completes the chunk if so.
func (d *Decoder) certain() bool {
	if d.iv.pos < len(d.dst) || d.iv.pos > len(d.dst)+padBytes {
		return false
	}
	mask := ^uint64(0) >> (64 - 8*uint(d.iv.pos-len(d.dst)))
	if d.iv.width-1 > mask-d.low&mask {
		return false
	}
	d.store(d.iv.pos)
	return true
}

// carry adds one to the number that ends with byte at of the chunk. It reports
// false if the chunk overflows, which no encoder makes happen.
func (d *Decoder) carry(at int) bool {
	for i := min(at, len(d.dst)-1); i >= 0; i-- {
		if d.dst[i]++; d.dst[i] != 0 {
			return true
		}
	}
	return false
}

// radixBlocks decodes whole groups of symbols of one radix while the chunk
// allows.
func (d *Decoder) radixBlocks(st *modelState, symbols []byte) (n int, ok bool) {
	w, low, a, group := d.iv, d.low, st.radix, st.group
	for w.fast(len(d.dst)) && n+group <= len(symbols) {
		s, good := a.parse(symbols[n : n+group])
		if !good {
			return n, false
		}
		n += group
		r, _ := bits.Mul64(w.width, st.inv)
		var c uint64
		if low, c = bits.Add64(low, r*s, 0); c != 0 && !d.carry(w.pos-9) {
			return n, false
		}
		if w.width -= r * s; s != st.total-1 {
			w.width = r
		}
		binary.BigEndian.PutUint64(d.dst[w.pos-8:], low)
		low <<= w.grow() & 63
	}
	d.iv, d.low = w, low
	if w.fast(len(d.dst)) {
		for i, b := range symbols[n:] {
			if a.digit[b] == noSymbol {
				return n + i, false
			}
		}
	}
	return n, true
}

// mixedPairs decodes symbols two at a time while the chunk allows and the
// automaton stays in states of kindMixed.
func (d *Decoder) mixedPairs(symbols []byte) (n int, ok bool) {
	w, low, states, q := d.iv, d.low, d.m.states, d.q
	for w.fast(len(d.dst)) && n < len(symbols) {
		st := &states[q]
		if st.kind != kindMixed {
			break
		}
		i := st.index[symbols[n]]
		if i == noSymbol {
			return n, false
		}
		s := &st.sym[i]
		off, width, to, used := uint64(s.cum)<<quantum, uint64(s.width)<<quantum, s.to, 1
		if st = &states[to]; st.kind == kindMixed {
			if n+1 == len(symbols) {
				break
			}
			i := st.index[symbols[n+1]]
			if i == noSymbol {
				return n + 1, false
			}
			t := &st.sym[i]
			off += uint64(s.width) * uint64(t.cum)
			width = uint64(s.width) * uint64(t.width)
			to, used = t.to, 2
		}
		q, n = to, n+used
		r := w.width >> (2 * quantum)
		var c uint64
		if low, c = bits.Add64(low, r*off, 0); c != 0 && !d.carry(w.pos-9) {
			return n, false
		}
		w.narrow(r, off, width, off+width == 1<<(2*quantum))
		binary.BigEndian.PutUint64(d.dst[w.pos-8:], low)
		low <<= w.grow() & 63
	}
	d.iv, d.low, d.q = w, low, q
	return n, true
}

// Finish takes the symbols that end a word after the last chunk is complete.
// It returns how many it took, and whether the word has ended; then the
// decoder is at the start of the next word. Errors are those of Write.
func (d *Decoder) Finish(symbols []byte) (n int, done bool, err error) {
	if d.err != nil {
		return 0, false, d.err
	}
	m := d.m
	for m.finish[d.q] > 0 {
		if n == len(symbols) {
			return n, false, nil
		}
		t := m.lang.flat[int(d.q)<<8|int(symbols[n])]
		if t == dead || m.finish[t] != m.finish[d.q]-1 {
			return d.fail(n)
		}
		d.q = t
		n++
	}
	d.q = 0
	return n, true, nil
}
