package lang

import (
	"github.com/chivenet/chive/internal/fault"
)

// A Decoder turns the words of an [Encoder] back into chunks of bytes. Only one goroutine may use it at a time.
//
// Begin sets the buffer and the length of the next chunk; Write takes the symbols as they arrive.
type Decoder struct {
	m *model
	q int32

	dst     []byte // the chunk
	active  bool   // the chunk is not complete
	bits    bool   // the chunk is coded as bits
	started bool   // the first symbol that carries bits has arrived
	lanes   [maxLanes]decLane
	count   int // of lanes
	turn    int // the lane that comes next
	phase   phase
	// part holds symbols that wait for the rest of their group. They begin at state q and are known to be
	// possible.
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

// Begin starts a chunk that fills dst, after the last chunk is complete. The content of dst is undefined until
// this chunk is complete.
func (d *Decoder) Begin(dst []byte) {
	d.dst, d.active = dst, len(dst) > 0
	d.started, d.nPart = false, 0
}

// errNoStream is the error for symbols that no encoder sends.
var errNoStream = fault.New(fault.Protocol, "the bytes are not a stream of the language")

// Write takes symbols of the current chunk. It returns how many it took, and whether the chunk is complete. If
// the chunk is complete, the other symbols belong to what follows; if not, Write took all of them.
//
// If a symbol comes that no encoder sends at this place, Write returns an error of kind fault.Protocol at once; n
// is the symbol's offset, or less by up to one group of symbols. After an error all later calls fail too.
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
		if d.bits = st.kind == kindBits; !d.bits {
			d.count, d.phase = laneCount(len(d.dst))
			for i := range d.count {
				_, lane := laneOf(d.dst, i, d.count)
				d.lanes[i].begin(lane)
			}
			d.turn = 0
		}
	}
	k := 0
	if d.bits {
		k, done, err = d.writeBits(symbols[n:])
	} else {
		k, done, err = d.writeChunk(symbols[n:])
	}
	if done {
		d.active, d.dst, d.lanes = false, nil, [maxLanes]decLane{}
	}
	return n + k, done, err
}

// literals takes the symbols that carry no bits, from offset n to the first symbol that carries some, or to the
// end of the symbols.
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

// fail makes this call and all later ones fail.
func (d *Decoder) fail(n int) (int, bool, error) {
	d.err = errNoStream
	return n, false, d.err
}

// writeBits takes symbols of a chunk that is coded as bits. It decodes groups of eight symbols.
func (d *Decoder) writeBits(symbols []byte) (n int, done bool, err error) {
	a := d.m.states[d.q].radix
	k := a.log2
	// Complete the group that waits for symbols.
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

// run decodes whole groups. The symbols that it leaves are less than a group and continue from the automaton's
// state.
func (d *Decoder) run(symbols []byte) (n int, done bool, err error) {
	for {
		if n, err = d.literals(symbols, n); err != nil || n == len(symbols) {
			return n, false, err
		}
		l := &d.lanes[d.turn]
		k, ok := 1, true
		switch {
		case d.phase == phaseOpen:
			if l.iv.inside() {
				if d.turn++; d.turn == d.count {
					d.phase, d.turn = phaseRounds, 0
				}
				continue
			}
			if _, ok = d.symbol(l, symbols[n]); !ok {
				return d.fail(n)
			}
		case d.phase == phaseRounds && d.turn == 0 && d.safe(d.lanes[:d.count]) == 0:
			d.phase = phaseClose
			continue
		case d.phase == phaseRounds:
			if k, ok = d.rounds(symbols[n:]); ok && k == 0 {
				return n, false, nil // less than a group is left
			}
		case l.iv.fast(len(l.dst)):
			if k, ok = d.rounds(symbols[n:]); ok && k == 0 {
				return n, false, nil
			}
		default:
			if done, ok = d.symbol(l, symbols[n]); !ok {
				return d.fail(n)
			} else if done {
				if d.turn++; d.turn == d.count {
					return n + 1, true, nil
				}
			}
		}
		if n += k; !ok {
			return d.fail(n)
		}
	}
}

// Finish takes the symbols that end a word after the last chunk is complete. It returns how many it took, and
// whether the word has ended. If so, the decoder is at the start of the next word. The errors are those of Write.
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
