package hspow

import (
	"hash/maphash"
	"slices"

	"github.com/chivenet/chive/internal/account"
)

const (
	// MaxSpent is how many proofs of one seed a service remembers: more than it serves
	// before the seed changes, at 250 a second.
	MaxSpent = 1 << 21
	// leastSpent is how many it remembers also when memory is short.
	leastSpent = 1 << 16
	// spentCost is what one counts on the account, in bytes.
	spentCost = 32
	// spentSample is how many efforts the median is taken of.
	spentSample = 1 << 10
)

// Spent remembers the proofs for one seed that a service has accepted, so that each counts
// once. When there are too many it forgets those of the lower efforts, and from then on
// proofs of such efforts are worth nothing: an attacker that sends many cheap proofs
// cannot make the service forget expensive ones.
type Spent struct {
	room    *account.Account
	most    int
	key     maphash.Seed
	efforts map[uint64]uint32
	floor   uint32
}

// NewSpent returns an empty memory, which counts on an account.
func NewSpent(room *account.Account) *Spent {
	return &Spent{room: room, most: MaxSpent, key: maphash.MakeSeed(), efforts: map[uint64]uint32{}}
}

// Worthless reports whether proofs of an effort count as none. Those of effort 0 always do.
func (s *Spent) Worthless(effort uint32) bool { return effort <= s.floor }

// Has reports whether a proof with this nonce was accepted before.
func (s *Spent) Has(nonce *[16]byte) bool {
	_, ok := s.efforts[s.hash(nonce)]
	return ok
}

// Add remembers a proof.
func (s *Spent) Add(nonce *[16]byte, effort uint32) {
	if n := len(s.efforts); n >= s.most || n >= leastSpent && s.room.Try(spentCost) != nil {
		s.raise()
		s.room.Reserve(spentCost)
	} else if n < leastSpent {
		s.room.Reserve(spentCost)
	}
	if s.Worthless(effort) {
		s.room.Release(spentCost)
		return
	}
	s.efforts[s.hash(nonce)] = effort
}

// raise forgets about half of the proofs, those with the lowest efforts.
func (s *Spent) raise() {
	var sample []uint32
	for _, e := range s.efforts { // in random order
		if sample = append(sample, e); len(sample) == spentSample {
			break
		}
	}
	slices.Sort(sample)
	s.floor = max(s.floor, sample[len(sample)/2])
	kept := map[uint64]uint32{} // a map never shrinks
	for k, e := range s.efforts {
		if e > s.floor {
			kept[k] = e
		}
	}
	s.room.Release(spentCost * (len(s.efforts) - len(kept)))
	s.efforts = kept
}

// Close forgets everything.
func (s *Spent) Close() {
	s.room.Release(spentCost * len(s.efforts))
	s.efforts = nil
}

// hash is short, to save memory: that two nonces have the same is improbable, and nobody
// can search for such nonces without the key.
func (s *Spent) hash(nonce *[16]byte) uint64 { return maphash.Bytes(s.key, nonce[:]) }
