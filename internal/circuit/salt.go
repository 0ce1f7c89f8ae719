package circuit

import "math/rand/v2"

// salt is the padding of a DATA cell that has 16 random bytes: see pad. Of the cells that a
// SENDME acknowledges, one has salt. A peer that knows the data, because it wrote it, could
// otherwise compute the tags, and acknowledge what it has not received (proposal 289).
const salt = 4 + 16

// pad fills the rest of a relay cell: four zero bytes, then random ones, so that
// nobody can predict a SENDME tag (tor-spec, "relay cells").
func pad(b []byte) {
	k := copy(b, []byte{0, 0, 0, 0})
	b = b[k:]
	for len(b) >= 8 {
		v := rand.Uint64()
		b[0], b[1], b[2], b[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
		b[4], b[5], b[6], b[7] = byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56)
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
}
