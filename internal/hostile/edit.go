package hostile

import (
	"math/rand/v2"
	"slices"
)

// edited returns a program with some random changes that keep its form. A fuzz
// input has, beside the program, a number that rnd comes from: the fuzzing engine
// knows bytes only, of which most changes say nothing, and any change of the
// number is a change of an operation. ops is how many operations there are.
func (p Program) edited(rnd *rand.Rand, ops int) Program {
	for more := true; more && len(p) > 0 && len(p) <= maxInsns; more = rnd.IntN(2) == 0 {
		p = p.edit(rnd, ops)
	}
	return p[:min(len(p), maxInsns)]
}

func (p Program) edit(rnd *rand.Rand, ops int) Program {
	i := rnd.IntN(len(p))
	any := func() byte { // mostly what means little, or one thing
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
	case 6: // an end before it
		return slices.Insert(p, i, Insn{opEnd, byte(rnd.IntN(6)), byte(rnd.IntN(4)), any()})
	case 7: // a wait
		return slices.Insert(p, i, Insn{opWait, byte(rnd.IntN(len(waits))), 0, 0})
	case 8: // another operation, on what this one is about
		return slices.Insert(p, i+rnd.IntN(2), Insn{byte(rnd.IntN(ops)), p[i].A, any(), any()})
	case 9: // it, over and over
		return slices.Insert(p, i, slices.Repeat(p[i:i+1], 1+rnd.IntN(1<<rnd.IntN(5)))...)
	case 10: // in another order, or not at all
		if j := rnd.IntN(len(p)); rnd.IntN(2) == 0 {
			p[i], p[j] = p[j], p[i]
		} else {
			return slices.Delete(p, i, i+1)
		}
	case 11: // without waiting between
		for ; i < len(p) && rnd.IntN(3) > 0; i++ {
			p[i].Op ^= Joined
		}
	}
	return p
}
