package equix

import "math/bits"

// batchLen is how many inputs a batch hashes at once: more make each instruction cheaper, until
// the registers leave the processor's first cache. These take 8 kB.
const batchLen = 128

// batch runs a program over many inputs at once, one instruction over all inputs before
// the next instruction: choosing what to do costs more than doing it.
type batch struct {
	lanes  lanes
	jumped lanes // the inputs that repeat a part of the program after a taken Branch
	// done has all bits set for an input that took a Branch: it takes no other one.
	done [batchLen]uint32
	from [batchLen]uint8 // the lane that each lane of jumped comes from
}

// lanes has the registers of up to batchLen inputs.
type lanes struct {
	n    int
	regs [8][batchLen]uint64
	last [batchLen]uint32 // of UMulH and SMulH
}

// hash puts the hashes of the inputs from first on into out, at most batchLen.
func (b *batch) hashRange(p *program, first uint64, out []uint64) {
	var in [batchLen]uint64
	for i := range in {
		in[i] = first + uint64(i)
	}
	b.hash(p, in[:len(out)], out)
}

// hash puts the hash of each input into out. There are at most batchLen.
func (b *batch) hash(p *program, in, out []uint64) {
	l := &b.lanes
	l.n = len(in)
	for i, x := range in {
		for r, v := range sip24(&p.key, x) {
			l.regs[r][i] = v
		}
	}
	clear(l.last[:l.n])
	clear(b.done[:l.n])
	code := p.code[:]
	target := 0
	for i := range code {
		switch code[i].op {
		case opTarget:
			target = i
		case opBranch:
			b.branch(code[target:i], code[i].c)
		default:
			l.run(&code[i])
		}
	}
	for i := range out {
		r := &l.regs
		x, _, _, _ := sipRound(r[0][i]+p.key[0], r[1][i]+p.key[1], r[2][i], r[3][i])
		y, _, _, _ := sipRound(r[4][i], r[5][i], r[6][i]+p.key[2], r[7][i]+p.key[3])
		out[i] = x ^ y
	}
}

// branch repeats the code since the newest Target for the inputs that take a Branch. Since an input takes
// only one, they are then where the others are.
func (b *batch) branch(code []instruction, mask uint32) {
	l, j := &b.lanes, &b.jumped
	j.n = 0
	for i, last := range l.last[:l.n] {
		if (last|b.done[i])&mask != 0 {
			continue
		}
		b.done[i] = 1<<32 - 1
		b.from[j.n] = uint8(i)
		for r := range l.regs {
			j.regs[r][j.n] = l.regs[r][i]
		}
		j.n++
	}
	if j.n == 0 {
		return
	}
	for i := range code {
		j.run(&code[i])
	}
	for k, i := range b.from[:j.n] {
		for r := range l.regs {
			l.regs[r][i] = j.regs[r][k]
		}
		l.last[i] = j.last[k]
	}
}

// run runs an instruction over all lanes. It does nothing for Target and Branch.
func (l *lanes) run(in *instruction) {
	d := l.regs[in.dst&7][:l.n]
	s := l.regs[in.src&7][:len(d)]
	switch in.op {
	case opMul:
		for i := range d {
			d[i] *= s[i]
		}
	case opUMulH:
		last := l.last[:len(d)]
		for i := range d {
			hi, _ := bits.Mul64(d[i], s[i])
			d[i], last[i] = hi, uint32(hi)
		}
	case opSMulH:
		last := l.last[:len(d)]
		for i := range d {
			x, y := d[i], s[i]
			hi, _ := bits.Mul64(x, y)
			hi -= uint64(int64(x)>>63)&y + uint64(int64(y)>>63)&x
			d[i], last[i] = hi, uint32(hi)
		}
	case opAddShift:
		for i := range d {
			d[i] += s[i] << (in.c & 63)
		}
	case opSub:
		for i := range d {
			d[i] -= s[i]
		}
	case opXor:
		for i := range d {
			d[i] ^= s[i]
		}
	case opAddConst:
		c := uint64(int64(int32(in.c)))
		for i := range d {
			d[i] += c
		}
	case opXorConst:
		c := uint64(int64(int32(in.c)))
		for i := range d {
			d[i] ^= c
		}
	case opRotate:
		n := -int(in.c)
		for i := range d {
			d[i] = bits.RotateLeft64(d[i], n)
		}
	}
}
