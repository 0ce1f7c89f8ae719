package hscrypto

import "github.com/chivenet/chive/internal/ident"

// StoreIndex returns the index of a descriptor on the hash ring (rend-spec-v3,
// WHERE-HSDESC). Replicas are counted from 1.
func StoreIndex(blinded ident.Ed25519ID, replica uint64, p Period) [32]byte {
	return hash([]byte("store-at-idx"), blinded[:], u64(replica), u64(p.Minutes), u64(p.Num))
}

// NodeIndex returns the index of a relay on the hash ring in a period with the
// shared random value srv.
func NodeIndex(relay ident.Ed25519ID, srv [32]byte, p Period) [32]byte {
	return hash([]byte("node-idx"), relay[:], srv[:], u64(p.Num), u64(p.Minutes))
}

// DisasterSRV returns the replacement for the shared random value of a period if
// the consensus has none.
func DisasterSRV(p Period) [32]byte {
	return hash([]byte("shared-random-disaster"), u64(p.Minutes), u64(p.Num))
}
