package lang

import (
	"encoding/binary"
	"math/bits"
)

// decLane is the decoding of one lane.
type decLane struct {
	iv  interval
	low uint64 // the interval's start, in the window
	dst []byte
}

// begin starts the decoding of a lane into dst.
func (l *decLane) begin(dst []byte) {
	*l = decLane{iv: interval{width: startRange, pos: startPos}, dst: dst}
}

// symbol narrows a lane's interval by one symbol, and reports whether the lane is
// complete; ok is false if the symbol is not possible here.
func (d *Decoder) symbol(l *decLane, b byte) (done, ok bool) {
	st := &d.m.states[d.q]
	if st.kind == kindMixed {
		i := st.index[b]
		if i == noSymbol {
			return false, false
		}
		s := &st.sym[i]
		d.q = s.to
		return l.step(l.iv.width>>quantum, uint64(s.cum), uint64(s.width), s.cum+s.width == 1<<quantum)
	}
	i := st.radix.digit[b]
	if i == noSymbol {
		return false, false
	}
	size := uint64(st.radix.size)
	return l.step(l.iv.width/size, uint64(i), 1, uint64(i) == size-1)
}

// step narrows the interval near the lane's ends. It reports whether the lane is
// certain; ok is false if it can never become certain.
func (l *decLane) step(r, off, width uint64, last bool) (done, ok bool) {
	low, carry := bits.Add64(l.low, r*off, 0)
	if carry != 0 && !l.carry() {
		return false, false
	}
	l.iv.narrow(r, off, width, last)
	if l.low = low; l.certain() {
		return true, true
	}
	from := l.iv.pos
	if s := l.iv.growTail(len(l.dst)); s > 0 {
		l.store(from)
		if l.low = low << s; l.certain() {
			return true, true
		}
	}
	return false, l.iv.pos <= len(l.dst)+padBytes
}

// store writes the window at pos into the lane, where the two overlap. The byte at -1
// is zero: the interval is below 1.
func (l *decLane) store(pos int) {
	for i := range 8 {
		if at := pos - 8 + i; at >= 0 && at < len(l.dst) {
			l.dst[at] = byte(l.low >> (56 - 8*uint(i)))
		}
	}
}

// certain reports whether the interval lies between two borders of chunks, and
// completes the lane if so.
func (l *decLane) certain() bool {
	n := len(l.dst)
	if l.iv.pos < n || l.iv.pos > n+padBytes {
		return false
	}
	mask := ^uint64(0) >> (64 - 8*uint(l.iv.pos-n))
	if l.iv.width-1 > mask-l.low&mask {
		return false
	}
	l.store(l.iv.pos)
	return true
}

// carry adds one to the number that ends before the window. It reports false if the
// lane overflows; no encoder causes that.
func (l *decLane) carry() bool {
	for i := min(l.iv.pos-9, len(l.dst)-1); i >= 0; i-- {
		if l.dst[i]++; l.dst[i] != 0 {
			return true
		}
	}
	return false
}

// safe returns how many groups all of some lanes can take while each lane stays fast.
func (d *Decoder) safe(lanes []decLane) int {
	n := lanes[0].iv.safe(len(lanes[0].dst))
	for i := range lanes[1:] {
		l := &lanes[i+1]
		n = min(n, l.iv.safe(len(l.dst)))
	}
	return n
}

// rounds decodes at least one group, if its symbols are all there, from the lane
// whose turn it is. In phaseClose that is the only lane; otherwise all lanes take
// turns. ok is false if symbol k is not possible.
func (d *Decoder) rounds(symbols []byte) (k int, ok bool) {
	lanes := d.lanes[:d.count]
	turn := d.turn
	if d.phase == phaseClose {
		lanes, turn = lanes[turn:turn+1], 0
	}
	if turn == 0 {
		n := d.safe(lanes)
		if st := &d.m.states[d.q]; st.radix != nil {
			if k, ok = st.decodeRounds(lanes, symbols, n); k > 0 || !ok {
				return k, ok
			}
		} else if k, ok = d.mixedRounds(lanes, symbols, n); k > 0 || !ok {
			return k, ok
		}
	}
	if k, ok = d.group(lanes, turn, symbols); ok && k > 0 && d.phase == phaseRounds {
		d.turn = (turn + 1) % d.count
	}
	return k, ok
}

// decodeRounds decodes up to n groups of symbols of one radix for each lane in turn.
// All lanes must stay fast until then.
func (st *modelState) decodeRounds(lanes []decLane, symbols []byte, n int) (at int, ok bool) {
	a, group := st.radix, st.group
	n = min(n, len(symbols)/(group*len(lanes)))
	for range n {
		for i := range lanes {
			l := &lanes[i]
			s, good := a.parse(symbols[at : at+group])
			if !good {
				return at, false
			}
			at += group
			w := l.iv
			r, _ := bits.Mul64(w.width, st.inv)
			low, c := bits.Add64(l.low, r*s, 0)
			if c != 0 && !l.carry() {
				return at, false
			}
			if w.width -= r * s; s != st.total-1 {
				w.width = r
			}
			binary.BigEndian.PutUint64(l.dst[w.pos-8:], low)
			l.low = low << (w.grow() & 63)
			l.iv = w
		}
	}
	return at, true
}

// mixedRounds decodes up to n groups of symbols for each lane in turn, while the
// automaton stays in states of kindMixed. All lanes must stay fast until then.
func (d *Decoder) mixedRounds(lanes []decLane, symbols []byte, n int) (at int, ok bool) {
	steps, q := d.m.steps, d.q
	n = min(n, len(symbols)/(2*len(lanes)))
	for range n {
		for i := range lanes {
			l := &lanes[i]
			pair := symbols[at : at+2]
			a := steps[int(q)<<8|int(pair[0])]
			b := steps[int(a.to)<<8|int(pair[1])]
			width := uint64(a.width) * uint64(b.width)
			if width == 0 {
				// The next group is of another kind, or the symbol is not possible.
				if d.q = q; d.phase == phaseRounds {
					d.turn = i
				}
				return at, true
			}
			w := l.iv
			off, r := uint64(a.cum)<<quantum+uint64(a.width)*uint64(b.cum), w.width>>(2*quantum)
			low, c := bits.Add64(l.low, r*off, 0)
			if c != 0 && !l.carry() {
				return at, false
			}
			at, q = at+2, b.to
			w.narrow(r, off, width, off+width == 1<<(2*quantum))
			binary.BigEndian.PutUint64(l.dst[w.pos-8:], low)
			l.low = low << (w.grow() & 63)
			l.iv = w
		}
	}
	d.q = q
	return at, true
}

// group decodes a group of symbols for lane i, which is fast, if all its symbols are
// there. ok is false if symbol k is not possible.
func (d *Decoder) group(lanes []decLane, i int, symbols []byte) (k int, ok bool) {
	st := &d.m.states[d.q]
	if st.radix != nil {
		if len(symbols) < st.group {
			for k, b := range symbols {
				if st.radix.digit[b] == noSymbol {
					return k, false
				}
			}
			return 0, true
		}
		return st.decodeRounds(lanes[i:i+1], symbols, 1)
	}
	l := &lanes[i]
	a := d.m.steps[int(d.q)<<8|int(symbols[0])]
	if a.width == 0 {
		return 0, false
	}
	off, width, to, used := uint64(a.cum)<<quantum, uint64(a.width)<<quantum, a.to, 1
	if d.m.states[to].kind == kindMixed {
		if len(symbols) == 1 {
			return 0, true
		}
		b := d.m.steps[int(to)<<8|int(symbols[1])]
		if b.width == 0 {
			return 1, false
		}
		off += uint64(a.width) * uint64(b.cum)
		width = uint64(a.width) * uint64(b.width)
		to, used = b.to, 2
	}
	r := l.iv.width >> (2 * quantum)
	low, c := bits.Add64(l.low, r*off, 0)
	if c != 0 && !l.carry() {
		return 0, false
	}
	d.q = to
	l.iv.narrow(r, off, width, off+width == 1<<(2*quantum))
	from := l.iv.pos
	binary.BigEndian.PutUint64(l.dst[from-8:], low)
	l.low = low << (l.iv.grow() & 63)
	return used, true
}
