package layer

import (
	"encoding/binary"
	"math/bits"
)

// POLYVAL (RFC 8452, section 3) is a polynomial over GF(2^128). The standard
// library computes its mirror image, GHASH, but only inside GCM, where the key
// must be the encryption of zero; CGO's keys are arbitrary. Hence this file.

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

// polyGeneric absorbs whole blocks: acc = (acc + block) * key for each. Time
// depends on the number of blocks only.
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
	// Montgomery reduction by x^128 + x^127 + x^126 + x^121 + 1: two times,
	// cancel the lowest 64 bits and drop them.
	w1 ^= w0<<63 ^ w0<<62 ^ w0<<57
	w2 ^= w0 ^ w0>>1 ^ w0>>2 ^ w0>>7
	w2 ^= w1<<63 ^ w1<<62 ^ w1<<57
	w3 ^= w1 ^ w1>>1 ^ w1>>2 ^ w1>>7
	return gf128{w2, w3}
}

// every5 has the bits whose number is a multiple of 5.
const every5 = 0x1084210842108421

// clmul is the carry-less product of x and y, by ordinary multiplication: with
// only every fifth bit of each factor set, at most 13 partial products meet in
// one bit position, and their sum stays below 32, so its carries die in the
// four bits between and the lowest bit of each group is the parity. No table
// and no branch: the time does not depend on the factors.
func clmul(x, y uint64) (hi, lo uint64) {
	var xs, ys [5]uint64
	for i := range 5 {
		xs[i] = x & (every5 << i)
		ys[i] = y & (every5 << i)
	}
	for k := range 5 {
		var h, l uint64
		for i := range 5 {
			ph, pl := bits.Mul64(xs[i], ys[(k-i+5)%5])
			h ^= ph
			l ^= pl
		}
		// Bit 64 of the product has number 4 modulo 5.
		l &= every5<<k | every5>>(5-k)
		h &= every5<<((k+1)%5) | every5>>(5-(k+1)%5)
		lo |= l
		hi |= h
	}
	return hi, lo
}
