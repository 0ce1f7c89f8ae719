// Package hscrypto has the arithmetic of v3 onion services (rend-spec-v3):
// addresses, time periods, blinded keys, subcredentials, indexes on the hash
// ring, and revision counters. Times and secrets are parameters.
package hscrypto

import (
	"crypto/sha3"
	"encoding/binary"

	"github.com/chivenet/chive/internal/ident"
)

// hash returns the SHA3-256 digest of the concatenated parts.
func hash(parts ...[]byte) (out [32]byte) {
	h := sha3.New256()
	for _, p := range parts {
		h.Write(p)
	}
	h.Sum(out[:0])
	return out
}

// u64 returns v as 8 bytes in network order.
func u64(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// Subcredential returns the secret of one time period that only peers who know
// the service's address share (rend-spec-v3, SUBCRED). id is the service's
// identity, blinded its key of that period.
func Subcredential(id, blinded ident.Ed25519ID) [32]byte {
	credential := hash([]byte("credential"), id[:])
	return hash([]byte("subcredential"), credential[:], blinded[:])
}
