package lang

import (
	"encoding/binary"
	"math/bits"
)

// radixRounds encodes n groups of symbols of one radix for each lane in turn. All lanes
// must stay fast until then.
func (st *modelState) radixRounds(dst []byte, lanes []encLane, n int) []byte {
	total, inv, group, a := st.total, st.inv, st.group, st.radix
	at := len(dst)
	dst = grow(dst, n*len(lanes)*group)
	for range n {
		for i := range lanes {
			l := &lanes[i]
			w := l.iv
			r, _ := bits.Mul64(w.width, inv)
			s := l.code / r
			if s >= total-1 {
				s = total - 1
				w.width -= r * s
			} else {
				w.width = r
			}
			code := l.code - r*s
			a.emit(dst[at:at+group], s)
			at += group
			next := binary.BigEndian.Uint64(l.src[w.pos:])
			shift := w.grow()
			l.code = code<<(shift&63) | next>>1>>(63-shift&63)
			l.iv = w
		}
	}
	return dst
}

// mixedRounds encodes n groups for each lane in turn, two symbols at a time if there is a
// table of pairs. All lanes must stay fast until then.
func (e *Encoder) mixedRounds(dst []byte, lanes []encLane, n int) []byte {
	for turn := 0; turn < n*len(lanes); {
		t, i := e.m.pairs[e.q], turn%len(lanes)
		if t == nil || i > 0 {
			dst = e.group(dst, lanes, i)
			turn++
			continue
		}
		var hot [maxLanes]hotLane
		for k := range lanes {
			l := &lanes[k]
			hot[k] = hotLane{width: l.iv.width, code: l.code, at: l.from + l.iv.pos}
		}
		at := len(dst)
		dst = grow(dst, (n*len(lanes)-turn)*2)
		groups, used, t, last := t.rounds(dst[at:], lanes[0].chunk, hot[:len(lanes)], n-turn/len(lanes))
		turn += groups
		dst = dst[:at+used]
		for k := range lanes {
			l := &lanes[k]
			l.iv = interval{width: hot[k].width, pos: hot[k].at - l.from}
			l.code = hot[k].code
		}
		e.q = t.state
		for _, b := range dst[len(dst)-last:] {
			e.q = e.m.lang.flat[int(e.q)<<8|int(b)]
		}
	}
	return dst
}

// hotLane holds the fields of a lane that change in the hottest loop. The processor has too
// few registers for more.
type hotLane struct {
	width, code uint64
	at          int // the interval's position in the bytes of all lanes
}

// rounds encodes n pairs for each lane of src in turn, or until there is no table. It
// returns how many pairs and symbols it wrote, the table of the state that it reached, and
// how many symbols it wrote after the last pair.
func (t *pairTable) rounds(dst, src []byte, lanes []hotLane, n int) (pairs, at int, _ *pairTable, last int) {
	for range n {
		for i := range lanes {
			l := &lanes[i]
			width, code := l.width, l.code
			r := width >> (2 * quantum)
			s := uint32(min(code/r, 1<<(2*quantum)-1))
			g := t.guide[s>>pairShift]
			// One more if s is above the last number of the guide's pair. The computation
			// has no branch, because the processor would often predict it wrongly.
			k := (g>>pairShift + (g&pairLow-s&pairLow)>>31) & (maxPairs - 1)
			for s-t.pairs[k].cum >= t.pairs[k+1].cum-t.pairs[k].cum {
				k = (k + 1) & (maxPairs - 1) // pairs narrower than the guide's steps
			}
			p := &t.pairs[k]
			binary.LittleEndian.PutUint16(dst[at:], p.b)
			at += int(p.n)
			off, end := uint64(p.cum), uint64(t.pairs[k+1].cum)
			code -= r * off
			if width -= r * off; end != 0 {
				width = r * (end - off)
			}
			next := binary.BigEndian.Uint64(src[l.at:])
			shift := headroom(width)
			l.width = width << (shift & 63)
			l.at += int(shift >> 3)
			l.code = code<<(shift&63) | next>>1>>(63-shift&63)
			if pairs++; p.next == nil {
				return pairs, at, t, int(p.n)
			}
			t = p.next
		}
	}
	return pairs, at, t, 0
}

// headroom returns by how many bits the window of an interval of this width moves. While
// much other work waits, two comparisons are faster on some processors than counting zeros;
// after a pair there are seldom more than two zero bytes.
func headroom(width uint64) uint {
	if width>>40 == 0 {
		return uint(bits.LeadingZeros64(width)) & 0x38
	}
	return uint((width>>56-1)>>63+(width>>48-1)>>63) << 3
}

// group encodes a group of symbols for lane i, which is fast.
func (e *Encoder) group(dst []byte, lanes []encLane, i int) []byte {
	dst = e.literals(dst)
	st := &e.m.states[e.q]
	if st.radix != nil {
		return st.radixRounds(dst, lanes[i:i+1], 1)
	}
	l := &lanes[i]
	w := &l.iv
	r := w.width >> (2 * quantum)
	s := min(l.code/r, 1<<(2*quantum)-1)
	a := st.find(s >> quantum)
	off, width := uint64(a.cum)<<quantum, uint64(a.width)<<quantum
	dst = append(dst, a.b)
	e.q = a.to
	if st = &e.m.states[e.q]; st.kind == kindMixed {
		rest := s - off
		if a.inv != 0 {
			rest, _ = bits.Mul64(rest, a.inv)
		}
		b := st.find(rest)
		off += uint64(a.width) * uint64(b.cum)
		width = uint64(a.width) * uint64(b.width)
		dst = append(dst, b.b)
		e.q = b.to
	}
	code := l.code - r*off
	w.narrow(r, off, width, off+width == 1<<(2*quantum))
	next := binary.BigEndian.Uint64(l.src[w.pos:])
	shift := w.grow()
	l.code = code<<(shift&63) | next>>1>>(63-shift&63)
	return dst
}
