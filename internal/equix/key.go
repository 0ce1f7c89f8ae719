package equix

import (
	"encoding"
	"encoding/binary"
	"hash"

	"golang.org/x/crypto/blake2b"
)

// salt is the salt of BLAKE2b, which has 16 bytes: the others are zero.
const salt = "HashX v1"

// Positions in the state that x/crypto's BLAKE2b saves: the name of the format, and then
// the eight words of the chain in big-endian order.
const (
	chainAt = 3
	saltAt  = chainAt + 4*8 // words 4 and 5 of the parameter block are the salt
)

// salted returns the state of a BLAKE2b-512 with a salt. x/crypto's hash has no
// parameter for that, but can load a saved state, and the parameter block
// only changes the first values of the chain: they are the constants of the
// hash, xor the block (RFC 7693, section 2.5, and the paper on BLAKE2, section 2.8).
func salted(salt string) []byte {
	var block [16]byte
	copy(block[:], salt)
	state, err := newBLAKE2b().(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic("equix: BLAKE2b does not save its state: " + err.Error()) // it does for every hash without a key
	}
	for i := range 2 {
		word := state[saltAt+8*i:]
		binary.BigEndian.PutUint64(word, binary.BigEndian.Uint64(word)^binary.LittleEndian.Uint64(block[8*i:]))
	}
	return state
}

var saltedState = salted(salt)

func newBLAKE2b() hash.Hash {
	h, err := blake2b.New512(nil)
	if err != nil {
		panic("equix: BLAKE2b: " + err.Error()) // only a key of a wrong length is an error
	}
	return h
}

// keyer derives keys from seeds. It reuses its memory.
type keyer struct {
	hash  hash.Hash
	state encoding.BinaryUnmarshaler // the same object
	sum   [blake2b.Size]byte
}

func newKeyer() keyer {
	h := newBLAKE2b()
	return keyer{hash: h, state: h.(encoding.BinaryUnmarshaler)}
}

// keys returns the key of the generator and the key of the registers.
func (k *keyer) keys(seed []byte) (generator, registers quad) {
	if err := k.state.UnmarshalBinary(saltedState); err != nil {
		panic("equix: BLAKE2b does not load its state: " + err.Error()) // it saved this one
	}
	k.hash.Write(seed)
	sum := k.hash.Sum(k.sum[:0])
	for i := range 4 {
		generator[i] = binary.LittleEndian.Uint64(sum[8*i:])
		registers[i] = binary.LittleEndian.Uint64(sum[32+8*i:])
	}
	return generator, registers
}
