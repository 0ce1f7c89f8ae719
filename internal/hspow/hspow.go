// Package hspow makes and checks proofs of work, version 1, that clients put into their
// introductions to onion services (hspow-spec): an Equi-X solution whose hash is small
// enough for the effort. It also has a service's rules: its seeds, its memory of the proofs
// that it has accepted, and the effort that it suggests.
package hspow

import (
	"encoding/binary"
	"errors"
	"hash"
	"math"

	"golang.org/x/crypto/blake2b"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/equix"
	"github.com/chivenet/chive/internal/fault"
)

// ChallengeLen is the length of a challenge, in bytes.
const ChallengeLen = len(personalization) + 32 + 32 + 16 + 4

// personalization starts each challenge.
const personalization = "Tor hs intro v1\x00"

var (
	// ErrSeed says that a proof is for another seed.
	ErrSeed = errors.New("it is for another seed")
	// ErrEffort says that a proof has less effort than it claims.
	ErrEffort = errors.New("its effort is lower than it claims")
)

// Challenge appends the bytes that a proof solves: for a service's blinded key, its
// seed, the client's nonce and effort.
func Challenge(dst []byte, blinded, seed *[32]byte, nonce *[16]byte, effort uint32) []byte {
	dst = append(dst, personalization...)
	dst = append(dst, blinded[:]...)
	dst = append(dst, seed[:]...)
	dst = append(dst, nonce[:]...)
	return binary.BigEndian.AppendUint32(dst, effort)
}

// Check checks a proof for a service's blinded key and a seed. It does the cheap checks
// first: ErrSeed, then ErrEffort, and then the errors of Equi-X. The errors are of kind
// fault.Protocol. The caller refuses a nonce that the service has seen before.
func Check(blinded, seed *[32]byte, p *cell.PoW) error {
	if [4]byte(seed[:4]) != p.SeedHead {
		return fault.New(fault.Protocol, "proof of work: %w", ErrSeed)
	}
	var buf [ChallengeLen]byte
	challenge := Challenge(buf[:0], blinded, seed, &p.Nonce, p.Effort)
	if !reaches(newHash(), challenge, &p.Solution, p.Effort) {
		return fault.New(fault.Protocol, "proof of work: %w", ErrEffort)
	}
	if err := equix.Verify(challenge, &p.Solution); err != nil {
		return fault.New(fault.Protocol, "proof of work: %w", err)
	}
	return nil
}

// newHash returns BLAKE2b with a digest of 4 bytes. It is not a longer digest that is cut.
func newHash() hash.Hash {
	h, err := blake2b.New(4, nil)
	if err != nil {
		panic(err) // the size is right, and there is no key
	}
	return h
}

// reaches reports whether a solution has the effort. One solution of effort many does.
func reaches(h hash.Hash, challenge []byte, solution *[16]byte, effort uint32) bool {
	h.Reset()
	h.Write(challenge) // a hash returns no error
	h.Write(solution[:])
	var sum [4]byte
	r := binary.BigEndian.Uint32(h.Sum(sum[:0]))
	return uint64(r)*uint64(effort) <= math.MaxUint32
}
