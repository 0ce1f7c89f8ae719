package lang

import "math/bits"

// Numbers are slices of 64-bit limbs, the least significant first.

// subMul subtracts q*t from c, which is longer than t, and returns the borrow
// out of c[len(t)].
func subMul(c, t []uint64, q uint64) (borrow uint64) {
	var carry uint64
	c = c[:len(t)+1]
	for i, w := range t {
		hi, lo := bits.Mul64(w, q)
		var b uint64
		lo, b = bits.Add64(lo, carry, 0)
		carry = hi + b
		c[i], b = bits.Sub64(c[i], lo, 0)
		carry += b
	}
	c[len(t)], borrow = bits.Sub64(c[len(t)], carry, 0)
	return borrow
}

// sub subtracts t from c, which is longer than t, and returns the borrow out
// of c[len(t)].
func sub(c, t []uint64) (borrow uint64) {
	c = c[:len(t)+1]
	for i, w := range t {
		c[i], borrow = bits.Sub64(c[i], w, borrow)
	}
	c[len(t)], borrow = bits.Sub64(c[len(t)], 0, borrow)
	return borrow
}

// add adds t to c, which is longer than t, and drops the carry out of
// c[len(t)].
func add(c, t []uint64) {
	var carry uint64
	c = c[:len(t)+1]
	for i, w := range t {
		c[i], carry = bits.Add64(c[i], w, carry)
	}
	c[len(t)] += carry
}

// addMul adds q*t to c and carries on to the end of c.
func addMul(c, t []uint64, q uint64) {
	var carry uint64
	low := c[:len(t)]
	for i, w := range t {
		hi, lo := bits.Mul64(w, q)
		var b uint64
		lo, b = bits.Add64(lo, carry, 0)
		carry = hi + b
		low[i], b = bits.Add64(low[i], lo, 0)
		carry += b
	}
	for i := len(t); carry != 0 && i < len(c); i++ {
		c[i], carry = bits.Add64(c[i], carry, 0)
	}
}

// takeOff subtracts q*t from c, which is not smaller.
func takeOff(c, t []uint64, q uint64) {
	borrow := subMul(c, t, q)
	for i := len(t) + 1; borrow != 0 && i < len(c); i++ {
		c[i], borrow = bits.Sub64(c[i], 0, borrow)
	}
}

// exceeds reports whether c is 2^e or more.
func exceeds(c []uint64, e int) bool {
	k := e >> 6
	if k >= len(c) {
		return false
	}
	if c[k]>>uint(e&63) != 0 {
		return true
	}
	for _, w := range c[k+1:] {
		if w != 0 {
			return true
		}
	}
	return false
}

// less reports whether c, which is longer than t, is below t.
func less(c, t []uint64) bool {
	if c[len(t)] != 0 {
		return false
	}
	for i := len(t) - 1; i >= 0; i-- {
		if c[i] != t[i] {
			return c[i] < t[i]
		}
	}
	return false
}

// trim drops the zero limbs at the top.
func trim(t []uint64) []uint64 {
	for len(t) > 0 && t[len(t)-1] == 0 {
		t = t[:len(t)-1]
	}
	return t
}

// bitLen returns the number of bits of a trimmed number.
func bitLen(t []uint64) int {
	if len(t) == 0 {
		return 0
	}
	return 64*(len(t)-1) + bits.Len64(t[len(t)-1])
}

// window returns the 64 bits of c that begin at bit e. Bits past the end are
// zero.
func window(c []uint64, e int) uint64 {
	k, s := e>>6, uint(e&63)
	if k >= len(c) {
		return 0
	}
	v := c[k] >> s
	if s > 0 && k+1 < len(c) {
		v |= c[k+1] << (64 - s)
	}
	return v
}

// shiftRight divides c by 2^n.
func shiftRight(c []uint64, n int) {
	for i := range c {
		c[i] = window(c, n+64*i)
	}
}

// fromBytes reads a big-endian number into c and sets all limbs of c.
func fromBytes(c []uint64, x []byte) {
	for i := range c {
		c[i] = 0
	}
	i := 0
	for ; len(x) >= 8; i++ {
		b := x[len(x)-8:]
		c[i] = uint64(b[7]) | uint64(b[6])<<8 | uint64(b[5])<<16 | uint64(b[4])<<24 |
			uint64(b[3])<<32 | uint64(b[2])<<40 | uint64(b[1])<<48 | uint64(b[0])<<56
		x = x[:len(x)-8]
	}
	for _, b := range x {
		c[i] = c[i]<<8 | uint64(b)
	}
}

// toBytes writes the low bits of c to x, big-endian, and fills all of x. It
// reports whether c fits.
func toBytes(x []byte, c []uint64) bool {
	n := len(x)
	for i, w := range c {
		for j := range 8 {
			at := n - 1 - 8*i - j
			if at < 0 {
				if w>>(8*j) != 0 {
					return false
				}
				break
			}
			x[at] = byte(w >> (8 * j))
		}
	}
	for at := n - 1 - 8*len(c); at >= 0; at-- {
		x[at] = 0
	}
	return true
}

// divisor divides numbers by one limb, with a reciprocal (Moeller and
// Granlund, "Improved division by invariant integers", 2011, algorithm 4).
type divisor struct {
	value uint64 // the divisor, not 0
	norm  uint64 // value shifted so that its top bit is set
	shift uint
	inv   uint64 // floor((2^128-1)/norm) - 2^64
}

func newDivisor(value uint64) divisor {
	s := uint(bits.LeadingZeros64(value))
	d := value << s
	inv, _ := bits.Div64(^d, ^uint64(0), d)
	return divisor{value: value, norm: d, shift: s, inv: inv}
}

// divide divides c in place and returns the remainder.
func (d *divisor) divide(c []uint64) uint64 {
	if len(c) == 0 {
		return 0
	}
	norm, inv, s := d.norm, d.inv, d.shift
	// A shift by 64 is zero in Go, as the case of s = 0 needs.
	hi := c[len(c)-1]
	r := hi >> (64 - s)
	for i := len(c) - 1; i >= 0; i-- {
		var lo uint64
		if i > 0 {
			lo = c[i-1]
		}
		u := hi<<s | lo>>(64-s)
		hi = lo
		q1, q0 := bits.Mul64(r, inv)
		var carry uint64
		q0, carry = bits.Add64(q0, u, 0)
		q1, _ = bits.Add64(q1, r, carry)
		q1++
		r = u - q1*norm
		if r > q0 {
			q1--
			r += norm
		}
		if r >= norm {
			q1++
			r -= norm
		}
		c[i] = q1
	}
	return r >> s
}

// mulAdd replaces the number c, which has n limbs, by c*m + v. It returns how
// many limbs it has now.
func mulAdd(c []uint64, n int, m, v uint64) int {
	carry := v
	for i, w := range c[:n] {
		hi, lo := bits.Mul64(w, m)
		var b uint64
		c[i], b = bits.Add64(lo, carry, 0)
		carry = hi + b
	}
	if carry != 0 {
		c[n] = carry
		n++
	}
	return n
}
