package equix

import "math/bits"

// slowHash is the specification's section 1.7 for one input, one instruction after
// the other: the reference for the batch.
func (p *program) slowHash(x uint64) uint64 {
	r := sip24(&p.key, x)
	last, target, jumped := uint32(0), 0, false
	for i := 0; i < programLen; i++ {
		in := p.code[i]
		d, s := &r[in.dst], r[in.src]
		switch in.op {
		case opMul:
			*d *= s
		case opUMulH:
			*d, _ = bits.Mul64(*d, s)
			last = uint32(*d)
		case opSMulH:
			hi, _ := bits.Mul64(*d, s)
			*d = hi - uint64(int64(*d)>>63)&s - uint64(int64(s)>>63)&*d
			last = uint32(*d)
		case opAddShift:
			*d += s << in.c
		case opAddConst:
			*d += uint64(int64(int32(in.c)))
		case opSub:
			*d -= s
		case opXor:
			*d ^= s
		case opXorConst:
			*d ^= uint64(int64(int32(in.c)))
		case opRotate:
			*d = bits.RotateLeft64(*d, -int(in.c))
		case opTarget:
			target = i
		case opBranch:
			if last&in.c == 0 && !jumped {
				jumped = true
				i = target
			}
		}
	}
	a, _, _, _ := sipRound(r[0]+p.key[0], r[1]+p.key[1], r[2], r[3])
	b, _, _, _ := sipRound(r[4], r[5], r[6]+p.key[2], r[7]+p.key[3])
	return a ^ b
}
