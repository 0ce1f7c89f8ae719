package equix

import "math/bits"

// generator makes programs.
type generator struct {
	random random
	busy   [cycles]uint8 // the ports that are taken in each cycle
	newest group         // of the operation chosen last
	regs   [8]register
}

// register is what the generator knows of a register.
type register struct {
	ready int    // the cycle in which its newest value is ready
	group group  // the operation that wrote it last
	mark  uint32 // what two operations of a group must not have in common
}

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
		slot++
		if properties[in.op].ports[1] != 0 {
			slot++
		}
	}
	last := 0
	for i := range g.regs {
		last = max(last, g.regs[i].ready)
	}
	return last == resultCycle
}

// place tries to make the instruction of a slot.
func (g *generator) place(slot int, firstTry bool, in *instruction) bool {
	*in = instruction{op: g.choose(slot, firstTry)}
	p := &properties[in.op]
	mark := g.constant(in)
	cycle, ports := g.schedule(slot/3, p)
	if cycle == cycles {
		return false
	}
	var ready uint8
	for i := range g.regs {
		if g.regs[i].ready <= cycle {
			ready |= 1 << i
		}
	}
	if p.src {
		const isR5 = 1 << r5
		if in.op == opAddShift && ready&isR5 != 0 && bits.OnesCount8(ready) == 2 {
			in.src = r5
		} else if !g.pick(ready, &in.src) {
			return false
		}
		if in.op != opUMulH && in.op != opSMulH {
			mark = uint32(in.src)
		}
	}
	if p.dst {
		var may uint8
		for i := range g.regs {
			r := &g.regs[i]
			switch {
			case ready&(1<<i) == 0:
			case in.op == opAddShift && i == r5:
			case p.src && i == int(in.src) && in.op != opUMulH && in.op != opSMulH:
			case in.op == opMul && firstTry && r.group == groupMul:
			case r.group == p.group && r.mark == mark:
			default:
				may |= 1 << i
			}
		}
		if !g.pick(may, &in.dst) {
			return false
		}
		g.regs[in.dst] = register{ready: cycle + p.latency, group: p.group, mark: mark}
	}
	g.busy[cycle] |= ports
	return true
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

// schedule finds the first cycle with free ports for all parts.
func (g *generator) schedule(from int, p *property) (cycle int, ports uint8) {
	for cycle = from; cycle < cycles; cycle++ {
		a := p.ports[0] &^ g.busy[cycle]
		b := p.ports[1] &^ g.busy[cycle]
		a &= -a
		b &= -b
		if a != 0 && (b != 0 || p.ports[1] == 0) {
			return cycle, a | b
		}
	}
	return cycle, 0
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
	for ; k > 0; k-- {
		set &= set - 1
	}
	*to = uint8(bits.TrailingZeros8(set))
	return true
}
