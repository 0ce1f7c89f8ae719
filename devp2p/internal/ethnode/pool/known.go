package pool

import (
	"hash/maphash"
	"sync"

	"github.com/ethereum/go-ethereum/common"
)

// ways is the number of places that a hash may have in a Known.
const ways = 4

// Known is a set of hashes of a fixed size, which forgets: a new hash may displace one of
// four others. Its memory is 8 bytes a place, and nobody outside can say which places two
// hashes share. It is safe for concurrent use.
type Known struct {
	mu    sync.Mutex
	seed  maphash.Seed
	slots []uint64 // groups of ways; the newest hash of a group is first
	size  int
}

// NewKnown returns a set with places for size hashes, rounded up to a power of two. The
// memory is taken at the first Add.
func NewKnown(size int) *Known {
	n := ways
	for n < size {
		n *= 2
	}
	return &Known{seed: maphash.MakeSeed(), size: n}
}

// group returns the places of a hash and its mark, which is never zero.
func (k *Known) group(h common.Hash) (slots []uint64, mark uint64) {
	mark = maphash.Bytes(k.seed, h[:])
	if mark == 0 {
		mark = 1
	}
	i := int(mark>>32) & (k.size/ways - 1) * ways
	return k.slots[i : i+ways], mark
}

// Add adds a hash, and reports whether it is new.
func (k *Known) Add(h common.Hash) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.slots == nil {
		k.slots = make([]uint64, k.size)
	}
	slots, mark := k.group(h)
	for i, s := range slots {
		if s == mark {
			copy(slots[1:i+1], slots[:i])
			slots[0] = mark
			return false
		}
	}
	copy(slots[1:], slots[:ways-1])
	slots[0] = mark
	return true
}

// Has reports whether the set still has a hash.
func (k *Known) Has(h common.Hash) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.slots == nil {
		return false
	}
	slots, mark := k.group(h)
	for _, s := range slots {
		if s == mark {
			return true
		}
	}
	return false
}
