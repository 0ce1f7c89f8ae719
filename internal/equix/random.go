package equix

// random is the stream of numbers that decides the program. Draws of bytes and of
// halves (32 bits) have a block each, and share the counter of blocks.
type random struct {
	key        quad
	next       uint64 // the number of the stream's next block
	bytes      uint64 // the block of bytes; the most significant of the unused ones is next
	bytesLeft  uint
	halves     uint64 // the block of halves
	halvesLeft uint
}

func (r *random) block() uint64 {
	b := sip13(&r.key, r.next)
	r.next++
	return b
}

// byte draws 8 bits.
func (r *random) byte() uint8 {
	if r.bytesLeft == 0 {
		r.bytes, r.bytesLeft = r.block(), 8
	}
	r.bytesLeft--
	return uint8(r.bytes >> (8 * r.bytesLeft & 63))
}

// half draws 32 bits.
func (r *random) half() uint32 {
	if r.halvesLeft == 0 {
		r.halves, r.halvesLeft = r.block(), 2
	}
	r.halvesLeft--
	return uint32(r.halves >> (32 * r.halvesLeft & 63))
}

// nonzero draws 32 bits until the ones in mask are not all zero, and returns these.
func (r *random) nonzero(mask uint32) uint32 {
	for {
		if x := r.half() & mask; x != 0 {
			return x
		}
	}
}
