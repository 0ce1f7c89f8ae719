// Package equix implements Equi-X, the puzzle of the proof of work of onion services (hspow-spec), and
// HashX, the family of hash functions below it. It is written from docs/spec/equix.md, which is this
// project's own specification of both, and from test vectors.
//
// There is no compiler to machine code in it: a batch of inputs runs through a program at
// once instead (batch.go).
package equix

import (
	"encoding/binary"
	"errors"
	"sync"
)

var (
	// ErrUnusable says that a challenge selects no hash function, and so has no solutions. About one
	// challenge in 20,000 is such.
	ErrUnusable = errors.New("equi-x: the challenge selects no hash function")
	// ErrOrder says that the indices of a solution are not in the order that makes its form unique.
	ErrOrder = errors.New("equi-x: the solution's indices are not in order")
	// ErrSum says that the hashes of a solution do not add up to zero.
	ErrSum = errors.New("equi-x: the solution's hashes do not add up")
)

// How many of the low bits are zero in the sum of the hashes of a pair of indices, and of all
// eight. Of four it is 30.
const (
	pairBits = 15
	fullBits = 4 * pairBits
)

// verifier is the memory of a Verify.
type verifier struct {
	maker maker
	batch batch
}

var verifiers = sync.Pool{New: func() any { return &verifier{maker: newMaker()} }}

// Verify checks a solution of a challenge, and returns ErrOrder, ErrUnusable or ErrSum if it is wrong. It checks the
// order first, because this costs next to nothing; the rest costs as much as 150 of the solver's hashes.
func Verify(challenge []byte, solution *[16]byte) error {
	if !ordered(solution) {
		return ErrOrder
	}
	v := verifiers.Get().(*verifier)
	defer verifiers.Put(v)
	return v.verify(challenge, solution)
}

// verify does what comes after the check of the order.
func (v *verifier) verify(challenge []byte, solution *[16]byte) error {
	if !v.maker.program(challenge) {
		return ErrUnusable
	}
	var h [8]uint64
	for i := range h {
		h[i] = uint64(binary.LittleEndian.Uint16(solution[2*i:]))
	}
	v.batch.hash(&v.maker.p, h[:], h[:])
	// Each round replaces the sums of two sides by the sum of both.
	for n, zero := 4, pairBits; n > 0; n, zero = n/2, 2*zero {
		for i := range n {
			h[i] = h[2*i] + h[2*i+1]
			if h[i]<<(64-zero) != 0 {
				return ErrSum
			}
		}
	}
	return nil
}

// ordered reports whether the left side of each pair, each pair of pairs and the pair of halves is
// not greater than the right one.
func ordered(s *[16]byte) bool {
	le := binary.LittleEndian
	for i := 0; i < 16; i += 4 {
		if le.Uint16(s[i:]) > le.Uint16(s[i+2:]) {
			return false
		}
	}
	for i := 0; i < 16; i += 8 {
		if le.Uint32(s[i:]) > le.Uint32(s[i+4:]) {
			return false
		}
	}
	return le.Uint64(s[:]) <= le.Uint64(s[8:])
}

// maker makes programs of challenges. It reuses its memory.
type maker struct {
	keyer     keyer
	generator generator
	p         program
}

func newMaker() maker { return maker{keyer: newKeyer()} }

// program makes m.p, and reports false if the challenge is unusable.
func (m *maker) program(challenge []byte) bool {
	key, registers := m.keyer.keys(challenge)
	m.p.key = registers
	return m.generator.generate(key, &m.p.code)
}
