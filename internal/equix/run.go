package equix

import "math/bits"

// signedHigh returns the upper half of a signed product.
func signedHigh(x, y uint64) uint64 {
	hi, _ := bits.Mul64(x, y)
	return hi - uint64(int64(x)>>63)&y - uint64(int64(y)>>63)&x
}

// run runs an instruction over all lanes. It does nothing for Target and Branch.
func (l *lanes) run(in *instruction) {
	d := l.regs[in.dst&7][:l.used]
	s := l.regs[in.src&7][:len(d)]
	switch in.op {
	case opMul:
		for i := range d {
			x, y := &d[i], &s[i]
			x[0] *= y[0]
			x[1] *= y[1]
			x[2] *= y[2]
			x[3] *= y[3]
			x[4] *= y[4]
			x[5] *= y[5]
			x[6] *= y[6]
			x[7] *= y[7]
		}
	case opUMulH:
		last := l.last[:len(d)]
		for i := range d {
			x, y, z := &d[i], &s[i], &last[i]
			x[0], _ = bits.Mul64(x[0], y[0])
			z[0] = uint32(x[0])
			x[1], _ = bits.Mul64(x[1], y[1])
			z[1] = uint32(x[1])
			x[2], _ = bits.Mul64(x[2], y[2])
			z[2] = uint32(x[2])
			x[3], _ = bits.Mul64(x[3], y[3])
			z[3] = uint32(x[3])
			x[4], _ = bits.Mul64(x[4], y[4])
			z[4] = uint32(x[4])
			x[5], _ = bits.Mul64(x[5], y[5])
			z[5] = uint32(x[5])
			x[6], _ = bits.Mul64(x[6], y[6])
			z[6] = uint32(x[6])
			x[7], _ = bits.Mul64(x[7], y[7])
			z[7] = uint32(x[7])
		}
	case opSMulH:
		last := l.last[:len(d)]
		for i := range d {
			x, y, z := &d[i], &s[i], &last[i]
			x[0] = signedHigh(x[0], y[0])
			z[0] = uint32(x[0])
			x[1] = signedHigh(x[1], y[1])
			z[1] = uint32(x[1])
			x[2] = signedHigh(x[2], y[2])
			z[2] = uint32(x[2])
			x[3] = signedHigh(x[3], y[3])
			z[3] = uint32(x[3])
			x[4] = signedHigh(x[4], y[4])
			z[4] = uint32(x[4])
			x[5] = signedHigh(x[5], y[5])
			z[5] = uint32(x[5])
			x[6] = signedHigh(x[6], y[6])
			z[6] = uint32(x[6])
			x[7] = signedHigh(x[7], y[7])
			z[7] = uint32(x[7])
		}
	case opAddShift:
		c := in.c & 63
		for i := range d {
			x, y := &d[i], &s[i]
			x[0] += y[0] << c
			x[1] += y[1] << c
			x[2] += y[2] << c
			x[3] += y[3] << c
			x[4] += y[4] << c
			x[5] += y[5] << c
			x[6] += y[6] << c
			x[7] += y[7] << c
		}
	case opSub:
		for i := range d {
			x, y := &d[i], &s[i]
			x[0] -= y[0]
			x[1] -= y[1]
			x[2] -= y[2]
			x[3] -= y[3]
			x[4] -= y[4]
			x[5] -= y[5]
			x[6] -= y[6]
			x[7] -= y[7]
		}
	case opXor:
		for i := range d {
			x, y := &d[i], &s[i]
			x[0] ^= y[0]
			x[1] ^= y[1]
			x[2] ^= y[2]
			x[3] ^= y[3]
			x[4] ^= y[4]
			x[5] ^= y[5]
			x[6] ^= y[6]
			x[7] ^= y[7]
		}
	case opAddConst:
		c := uint64(int64(int32(in.c)))
		for i := range d {
			x := &d[i]
			x[0] += c
			x[1] += c
			x[2] += c
			x[3] += c
			x[4] += c
			x[5] += c
			x[6] += c
			x[7] += c
		}
	case opXorConst:
		c := uint64(int64(int32(in.c)))
		for i := range d {
			x := &d[i]
			x[0] ^= c
			x[1] ^= c
			x[2] ^= c
			x[3] ^= c
			x[4] ^= c
			x[5] ^= c
			x[6] ^= c
			x[7] ^= c
		}
	case opRotate:
		c := -int(in.c)
		for i := range d {
			x := &d[i]
			x[0] = bits.RotateLeft64(x[0], c)
			x[1] = bits.RotateLeft64(x[1], c)
			x[2] = bits.RotateLeft64(x[2], c)
			x[3] = bits.RotateLeft64(x[3], c)
			x[4] = bits.RotateLeft64(x[4], c)
			x[5] = bits.RotateLeft64(x[5], c)
			x[6] = bits.RotateLeft64(x[6], c)
			x[7] = bits.RotateLeft64(x[7], c)
		}
	}
}
