package hostile

import (
	"math/rand/v2"
	"slices"
)

// edited returns a program with some random changes that keep its format. A fuzz
// input has a program and a number, from which rnd is made. The fuzzing engine
// changes only bytes, and most such changes have no effect, but any change of the
// number changes operations. ops is the number of operations.
func (p Program) edited(rnd *rand.Rand, ops int) Program {
	for more := true; more && len(p) > 0 && len(p) <= maxInsns; more = rnd.IntN(2) == 0 {
		p = p.edit(rnd, ops)
	}
	return p[:min(len(p), maxInsns)]
}

func (p Program) edit(rnd *rand.Rand, ops int) Program {
	i := rnd.IntN(len(p))
	any := func() byte { // mostly a small number, or a single bit
		switch rnd.IntN(4) {
		case 0:
			return byte(rnd.IntN(4))
		case 1:
			return 1 << rnd.IntN(8)
		case 2:
			return byte(rnd.IntN(20))
		}
		return byte(rnd.IntN(256))
	}
	switch rnd.IntN(12) {
	default: // an argument
		arg := []*byte{&p[i].A, &p[i].B, &p[i].C}[rnd.IntN(3)]
		switch rnd.IntN(4) {
		case 0:
			*arg ^= 1 << rnd.IntN(8)
		case 1:
			*arg++
		case 2:
			*arg = any()
		case 3:
			*arg = p[rnd.IntN(len(p))].B
		}
	case 6: // insert an end before it
		return slices.Insert(p, i, Insn{opEnd, byte(rnd.IntN(6)), byte(rnd.IntN(4)), any()})
	case 7: // insert a wait
		return slices.Insert(p, i, Insn{opWait, byte(rnd.IntN(len(waits))), 0, 0})
	case 8: // insert another operation on the same object
		return slices.Insert(p, i+rnd.IntN(2), Insn{byte(rnd.IntN(ops)), p[i].A, any(), any()})
	case 9: // repeat it
		return slices.Insert(p, i, slices.Repeat(p[i:i+1], 1+rnd.IntN(1<<rnd.IntN(5)))...)
	case 10: // move or remove operations
		if j := rnd.IntN(len(p)); rnd.IntN(2) == 0 {
			p[i], p[j] = p[j], p[i]
		} else {
			return slices.Delete(p, i, i+1)
		}
	case 11: // join or separate some operations
		for ; i < len(p) && rnd.IntN(3) > 0; i++ {
			p[i].Op ^= Joined
		}
	}
	return p
}
