package equix

// Sizes of a batch: more inputs make each instruction cheaper, until the registers, here 16 kB, leave
// the processor's first cache. Instructions run over groups of lanes, whose loops are written out.
const (
	batchLen = 256
	groupLen = 8
	groups   = batchLen / groupLen
)

// batch runs a program over many inputs at once, one instruction over all inputs before
// the next instruction: to choose what to do costs more than to do it.
type batch struct {
	lanes  lanes
	jumped lanes // the inputs that repeat a part of the program after a taken Branch
	// done has all bits set for an input that took a Branch: it takes no other one.
	done [batchLen]uint32
	from [batchLen]uint8 // the lane that each lane of jumped comes from
}

// lanes has the registers of up to batchLen inputs, in groups. The last group may have lanes
// that are not in use: they run too, and nobody reads them.
type lanes struct {
	used int // groups
	// One group more than needed keeps the registers' distance from being a power of two: otherwise
	// they would compete for the same places in the cache.
	regs [8][groups + 1][groupLen]uint64
	last [groups][groupLen]uint32 // of UMulH and SMulH
}

// use says how many lanes are in use.
func (l *lanes) use(n int) { l.used = (n + groupLen - 1) / groupLen }

// hashRange puts the hashes of the integers from first on into out, at most batchLen.
func (b *batch) hashRange(p *program, first uint64, out []uint64) {
	for i := range out {
		out[i] = first + uint64(i)
	}
	b.hash(p, out, out)
}

// hash puts the hash of each input into out, which may be the same slice. There are at most batchLen.
func (b *batch) hash(p *program, in, out []uint64) {
	l := &b.lanes
	l.use(len(in))
	for i, x := range in {
		for r, v := range sip24(&p.key, x) {
			l.regs[r][i/groupLen][i%groupLen] = v
		}
	}
	clear(l.last[:l.used])
	clear(b.done[:l.used*groupLen])
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
	r := &l.regs
	for i := range in {
		g, k := i/groupLen, i%groupLen
		x, _, _, _ := sipRound(r[0][g][k]+p.key[0], r[1][g][k]+p.key[1], r[2][g][k], r[3][g][k])
		y, _, _, _ := sipRound(r[4][g][k], r[5][g][k], r[6][g][k]+p.key[2], r[7][g][k]+p.key[3])
		out[i] = x ^ y
	}
}

// branch repeats the code since the newest Target for the inputs that take a Branch. Since an input takes
// only one, they are then where the others are, and "last" has no use any more.
func (b *batch) branch(code []instruction, mask uint32) {
	l, j := &b.lanes, &b.jumped
	n := 0
	for g := range l.last[:l.used] {
		for k, last := range &l.last[g] {
			i := g*groupLen + k
			if (last|b.done[i])&mask != 0 {
				continue
			}
			b.done[i] = 1<<32 - 1
			b.from[n] = uint8(i)
			for r := range l.regs {
				j.regs[r][n/groupLen][n%groupLen] = l.regs[r][g][k]
			}
			n++
		}
	}
	if n == 0 {
		return
	}
	j.use(n)
	for i := range code {
		j.run(&code[i])
	}
	for n, i := range b.from[:n] {
		g, k := i/groupLen, i%groupLen
		for r := range l.regs {
			l.regs[r][g][k] = j.regs[r][n/groupLen][n%groupLen]
		}
	}
}
