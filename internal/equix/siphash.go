package equix

import "math/bits"

// quad is the state of SipHash, and its key: both uses take the key as the state, without
// the constants of SipHash's own key schedule.
type quad [4]uint64

// sipRound is SipRound.
func sipRound(a, b, c, d uint64) (uint64, uint64, uint64, uint64) {
	a += b
	c += d
	b = bits.RotateLeft64(b, 13) ^ a
	d = bits.RotateLeft64(d, 16) ^ c
	a = bits.RotateLeft64(a, 32)
	c += b
	a += d
	b = bits.RotateLeft64(b, 17) ^ c
	d = bits.RotateLeft64(d, 21) ^ a
	c = bits.RotateLeft64(c, 32)
	return a, b, c, d
}

// sip13 makes block x of the stream of random numbers from which a program is made.
func sip13(key *quad, x uint64) uint64 {
	a, b, c, d := sipRound(key[0], key[1], key[2], key[3]^x)
	a ^= x
	c ^= 0xff
	for range 3 {
		a, b, c, d = sipRound(a, b, c, d)
	}
	return a ^ b ^ c ^ d
}

// sip24 makes the first values of the eight registers from the input of a hash.
func sip24(key *quad, x uint64) [8]uint64 {
	a, b, c, d := key[0], key[1]^0xee, key[2], key[3]^x
	a, b, c, d = sipRound(a, b, c, d)
	a, b, c, d = sipRound(a, b, c, d)
	a ^= x
	c ^= 0xee
	for range 4 {
		a, b, c, d = sipRound(a, b, c, d)
	}
	r := [8]uint64{a, b, c, d}
	b ^= 0xdd
	for range 4 {
		a, b, c, d = sipRound(a, b, c, d)
	}
	r[4], r[5], r[6], r[7] = a, b, c, d
	return r
}
