package layer

import (
	"encoding/binary"
	"math/bits"
)

// POLYVAL (RFC 8452, section 3) is a polynomial over GF(2^128). The standard
// library has its mirror image, GHASH, but only inside GCM, where the key must be
// the encryption of zero. CGO's keys are arbitrary, so this file implements
// POLYVAL.

// gf128 is an element of POLYVAL's field: bit i of lo is the coefficient of
// x^i, bit i of hi that of x^(64+i).
type gf128 struct{ lo, hi uint64 }

func loadGF(b *[16]byte) gf128 {
	return gf128{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}
}

func (e gf128) store(b *[16]byte) {
	binary.LittleEndian.PutUint64(b[:8], e.lo)
	binary.LittleEndian.PutUint64(b[8:], e.hi)
}

// polyGeneric absorbs whole blocks: acc = (acc + block) * key for each. Its time
// depends only on the number of blocks.
func polyGeneric(acc, key *gf128, blocks []byte) {
	a := *acc
	for ; len(blocks) >= 16; blocks = blocks[16:] {
		a.lo ^= binary.LittleEndian.Uint64(blocks)
		a.hi ^= binary.LittleEndian.Uint64(blocks[8:])
		a = a.dot(*key)
	}
	*acc = a
}

// dot returns a*b*x^-128, RFC 8452's dot.
func (a gf128) dot(b gf128) gf128 {
	// Karatsuba: three products of 64 bits for one of 128.
	h0, l0 := clmul(a.lo, b.lo)
	h2, l2 := clmul(a.hi, b.hi)
	h1, l1 := clmul(a.lo^a.hi, b.lo^b.hi)
	w0, w1, w2, w3 := l0, h0^l1^l0^l2, l2^h1^h0^h2, h2
	// Montgomery reduction by x^128 + x^127 + x^126 + x^121 + 1: cancel the
	// lowest 64 bits and drop them, two times.
	w1 ^= w0<<63 ^ w0<<62 ^ w0<<57
	w2 ^= w0 ^ w0>>1 ^ w0>>2 ^ w0>>7
	w2 ^= w1<<63 ^ w1<<62 ^ w1<<57
	w3 ^= w1 ^ w1>>1 ^ w1>>2 ^ w1>>7
	return gf128{w2, w3}
}

// Each mask has every fifth bit, beginning with bit 0, 1, 2, 3 and 4.
const (
	every5 = 0x1084210842108421
	plus1  = 0x2108421084210842
	plus2  = 0x4210842108421084
	plus3  = 0x8421084210842108
	plus4  = 0x0842108421084210
)

// clmul is the carry-less product of x and y, by ordinary multiplication. If only
// every fifth bit of each factor is set, at most 13 partial products fall on one
// bit position. Their sum stays below 32, so the carries stay within the four
// bits between, and the lowest bit of each group is the parity. There is no table
// and no branch, so the time does not depend on the factors.
func clmul(x, y uint64) (hi, lo uint64) {
	x0, x1, x2, x3, x4 := x&every5, x&plus1, x&plus2, x&plus3, x&plus4
	y0, y1, y2, y3, y4 := y&every5, y&plus1, y&plus2, y&plus3, y&plus4
	// Class k of the product's bits comes from the factors' classes i and k-i,
	// modulo 5. Bit 64 of the product is in class 4.
	h, l := mul5(x0, y0, x1, y4, x2, y3, x3, y2, x4, y1)
	hi, lo = h&plus1, l&every5
	h, l = mul5(x0, y1, x1, y0, x2, y4, x3, y3, x4, y2)
	hi, lo = hi|h&plus2, lo|l&plus1
	h, l = mul5(x0, y2, x1, y1, x2, y0, x3, y4, x4, y3)
	hi, lo = hi|h&plus3, lo|l&plus2
	h, l = mul5(x0, y3, x1, y2, x2, y1, x3, y0, x4, y4)
	hi, lo = hi|h&plus4, lo|l&plus3
	h, l = mul5(x0, y4, x1, y3, x2, y2, x3, y1, x4, y0)
	return hi | h&every5, lo | l&plus4
}

// mul5 returns the carry-less sum (xor) of five ordinary products.
func mul5(a, b, c, d, e, f, g, h, i, j uint64) (hi, lo uint64) {
	h0, l0 := bits.Mul64(a, b)
	h1, l1 := bits.Mul64(c, d)
	h2, l2 := bits.Mul64(e, f)
	h3, l3 := bits.Mul64(g, h)
	h4, l4 := bits.Mul64(i, j)
	return h0 ^ h1 ^ h2 ^ h3 ^ h4, l0 ^ l1 ^ l2 ^ l3 ^ l4
}
