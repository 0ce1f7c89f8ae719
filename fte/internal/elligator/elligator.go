// Package elligator makes X25519 public keys that look like random bytes.
//
// It implements Elligator 2 (Bernstein, Hamburg, Krasnova, Lange, "Elligator:
// Elliptic-curve points indistinguishable from uniform random strings", CCS 2013;
// RFC 9380, section 6.7.1) on Curve25519, in both directions. Half of all points
// have a representative, so Generate makes keys until one has. It chooses points
// from the whole curve, not from the prime-order subgroup; otherwise an observer
// could decode a representative and test the order.
package elligator

import (
	"errors"
	"io"

	"filippo.io/edwards25519"
	"filippo.io/edwards25519/field"
)

// Size is the length of a representative and of a public key, in bytes.
const Size = 32

var (
	one    = new(field.Element).One()
	curveA = new(field.Element).Mult32(one, 486662)
	negA   = new(field.Element).Negate(curveA)

	// torsion holds the eight points of small order.
	torsion = smallOrder()
)

func smallOrder() (t [8]*edwards25519.Point) {
	// A generator of the small subgroup, in the encoding of RFC 8032.
	g, err := new(edwards25519.Point).SetBytes([]byte{
		0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
		0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
	})
	if err != nil {
		panic(err) // a constant
	}
	p := edwards25519.NewIdentityPoint()
	for i := range t {
		t[i] = new(edwards25519.Point).Set(p)
		p.Add(p, g)
	}
	return t
}

// Decode maps a representative to the u-coordinate of its point, an X25519
// public key. Every string is a representative; the two top bits are ignored.
func Decode(rep *[Size]byte) (pub [Size]byte) {
	b := *rep
	b[31] &= 0x3f
	r, err := new(field.Element).SetBytes(b[:])
	if err != nil {
		panic(err) // the length is fixed
	}
	// w = -A / (1 + 2r^2); the denominator is never zero, as -1/2 is no square.
	d := new(field.Element).Square(r)
	d.Add(d, d)
	d.Add(d, one)
	w := new(field.Element).Invert(d)
	w.Multiply(w, negA)
	// w is on the curve if w^3 + A w^2 + w is a square, else -A - w is.
	e := new(field.Element).Add(w, curveA)
	e.Multiply(e, w)
	e.Add(e, one)
	e.Multiply(e, w)
	_, square := new(field.Element).SqrtRatio(e, one)
	other := new(field.Element).Subtract(negA, w)
	w.Select(w, other, square)
	copy(pub[:], w.Bytes())
	return pub
}

// encode returns a representative of the u-coordinate, if it has one. bits
// supplies the choice of the square root (bit 0) and the two unused top bits.
func encode(pub *[Size]byte, bits byte) (rep [Size]byte, ok bool) {
	u, err := new(field.Element).SetBytes(pub[:])
	if err != nil {
		panic(err)
	}
	ua := new(field.Element).Add(u, curveA)
	// r = sqrt(-u / 2(u+A)) or sqrt(-(u+A) / 2u): both are roots or none is.
	num, den := u, ua
	if bits&1 == 1 {
		num, den = ua, u
	}
	num = new(field.Element).Negate(num)
	den = new(field.Element).Add(den, den)
	r, square := new(field.Element).SqrtRatio(num, den)
	if square != 1 || den.Equal(new(field.Element)) == 1 {
		return rep, false
	}
	copy(rep[:], r.Bytes())
	if rep[31]&0x40 != 0 { // use r or -r, whichever is below 2^254
		copy(rep[:], r.Negate(r).Bytes())
	}
	rep[31] |= bits & 0xc0
	return rep, true
}

// Generate makes a random X25519 private key whose public key has a
// representative, and returns both; the representative is uniform in all 256 bits.
// X25519 with the private key and Decode(rep) agree, as clamping cancels the
// small-order part of the point.
func Generate(rand io.Reader) (priv, rep [Size]byte, err error) {
	var b [Size + 1]byte
	for range 128 {
		if _, err := io.ReadFull(rand, b[:]); err != nil {
			return priv, rep, err
		}
		copy(priv[:], b[:Size])
		s, err := new(edwards25519.Scalar).SetBytesWithClamping(priv[:])
		if err != nil {
			return priv, rep, err
		}
		p := new(edwards25519.Point).ScalarBaseMult(s)
		p.Add(p, torsion[b[Size]>>1&7])
		u := [Size]byte(p.BytesMontgomery())
		if rep, ok := encode(&u, b[Size]); ok {
			return priv, rep, nil
		}
	}
	return priv, rep, errors.New("elligator: the random source gave no usable key in 128 draws")
}
