package hscrypto

import "github.com/chivenet/chive/internal/ident"

// StoreIndex returns where on the hash ring a descriptor lies (rend-spec-v3,
// WHERE-HSDESC). Replicas are counted from 1.
func StoreIndex(blinded ident.Ed25519ID, replica uint64, p Period) [32]byte {
	return hash([]byte("store-at-idx"), blinded[:], u64(replica), u64(p.Minutes), u64(p.Num))
}

// NodeIndex returns where on the hash ring a relay stands in a period, by the
// shared random value srv.
func NodeIndex(relay ident.Ed25519ID, srv [32]byte, p Period) [32]byte {
	return hash([]byte("node-idx"), relay[:], srv[:], u64(p.Num), u64(p.Minutes))
}

// DisasterSRV returns what stands for the shared random value of a period when
// the consensus has none.
func DisasterSRV(p Period) [32]byte {
	return hash([]byte("shared-random-disaster"), u64(p.Minutes), u64(p.Num))
}
