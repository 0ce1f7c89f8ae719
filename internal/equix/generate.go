package equix

import "math/bits"

// generator makes programs. Sets of registers are bits of a byte, and what is done with them avoids
// branches: the processor could not predict them, and mistakes would cost more than all else.
type generator struct {
	random random
	newest group     // of the operation chosen last
	ready  [8]int    // the cycle in which the newest value of each register is ready
	writer [8]writer // of each register's newest value
	byMul  uint8     // the registers whose newest value a Mul wrote
}

// writer is a group, and 32 bits below it: the mark that two operations of a group must not have in
// common if one of them writes what the other wrote.
type writer uint64

func newWriter(g group, mark uint32) writer { return writer(g)<<32 | writer(mark) }

const r5 = 5

// wide, first and second are the operations that are chosen by a draw: at the fixed places of the long
// multiplications, at the first try of other places, and at the second.
var (
	wide   = [...]operation{opSMulH, opUMulH}
	first  = [...]operation{opRotate, opXorConst, opAddConst, opAddConst, opSub, opXor, opXorConst, opAddShift}
	second = [...]operation{opRotate, opXorConst, opAddConst, opAddConst}
)

// generate makes the program of a key. It reports false if the seed is unusable.
func (g *generator) generate(key quad, code *[programLen]instruction) bool {
	*g = generator{random: random{key: key}}
	slot := 0
	for i := range code {
		in := &code[i]
		if !g.place(slot, true, in) && !g.place(slot, false, in) {
			return false
		}
		slot += properties[in.op].slots
	}
	return true
}

// place tries to make the instruction of a slot.
func (g *generator) place(slot int, firstTry bool, in *instruction) bool {
	*in = instruction{op: g.choose(slot, firstTry)}
	p := &properties[in.op]
	mark := g.constant(in)
	cycle := slot / 3
	ready := g.readyAt(cycle)
	may := ready // be the destination
	if p.src {
		if in.op == opAddShift && ready&(1<<r5) != 0 && bits.OnesCount8(ready) == 2 {
			in.src = r5
		} else if !g.pick(ready, &in.src) {
			return false
		}
		if !p.long {
			mark = uint32(in.src)
			may &^= 1 << in.src
		}
	}
	if p.dst {
		if in.op == opAddShift {
			may &^= 1 << r5
		}
		if in.op == opMul && firstTry {
			may &^= g.byMul
		}
		w := newWriter(p.group, mark)
		if !g.pick(may&^g.writtenBy(w), &in.dst) {
			return false
		}
		g.write(in, cycle+p.latency, w)
	}
	return true
}

// readyAt returns the registers whose newest value is ready in a cycle.
func (g *generator) readyAt(cycle int) (set uint8) {
	for i, r := range g.ready {
		bit := uint8(0)
		if r <= cycle {
			bit = 1
		}
		set |= bit << i
	}
	return set
}

// writtenBy returns the registers whose newest value is of a writer like w.
func (g *generator) writtenBy(w writer) (set uint8) {
	for i, x := range g.writer {
		bit := uint8(0)
		if x == w {
			bit = 1
		}
		set |= bit << i
	}
	return set
}

// write records that a register has a new value.
func (g *generator) write(in *instruction, ready int, w writer) {
	d := in.dst & 7
	g.ready[d], g.writer[d] = ready, w
	g.byMul &^= 1 << d
	if in.op == opMul {
		g.byMul |= 1 << d
	}
}

// choose selects the operation.
func (g *generator) choose(slot int, firstTry bool) operation {
	var op operation
	switch m := slot % 36; {
	case m == 1:
		op = opTarget
	case m == 19:
		op = opBranch
	case m == 12 || m == 24:
		op = wide[g.random.byte()%2]
	case m%3 == 0:
		op = opMul
	default:
		for {
			if firstTry {
				op = first[g.random.byte()%8]
			} else {
				op = second[g.random.byte()%4]
			}
			if properties[op].group != g.newest {
				break
			}
		}
	}
	g.newest = properties[op].group
	return op
}

// constant draws the constant of an instruction, and the mark of a long multiplication.
func (g *generator) constant(in *instruction) (mark uint32) {
	switch in.op {
	case opAddShift:
		in.c = g.random.half() % 4
	case opRotate:
		in.c = g.random.nonzero(63)
	case opAddConst, opXorConst:
		in.c = g.random.nonzero(1<<32 - 1)
	case opBranch:
		for bits.OnesCount32(in.c) < 4 {
			in.c |= 1 << (g.random.byte() % 32)
		}
	case opUMulH, opSMulH:
		return g.random.half()
	}
	return 0
}

// pick selects one of the registers of a set, and reports false if there is none.
func (g *generator) pick(set uint8, to *uint8) bool {
	n := uint32(bits.OnesCount8(set))
	if n == 0 {
		return false
	}
	k := uint32(0)
	if n > 1 {
		k = g.random.half() % n
	}
	*to = nth[set][k&7]
	return true
}

// nth has the members of each set of registers in their order.
var nth = func() (t [256][8]uint8) {
	for set := range t {
		n := 0
		for r := range uint8(8) {
			if set>>r&1 != 0 {
				t[set][n] = r
				n++
			}
		}
	}
	return t
}()
