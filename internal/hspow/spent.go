package hspow

import (
	"hash/maphash"
	"math/bits"
	"sync"

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
	// maxFloor bounds the efforts that count for nothing: clients make MaxSuggested at most.
	maxFloor = MaxSuggested - 1
)

// Spent remembers the proofs for one seed that a service has accepted, so that each counts
// once. When there are too many, or memory is short, it forgets those of the lower efforts,
// and from then on proofs of such efforts are worth nothing: an attacker that sends many
// cheap proofs cannot make the service forget expensive ones.
//
// Efforts of MaxSuggested and more are always worth something, because C tor's clients do no
// more. If there are too many proofs of these, some that it has forgotten can count again.
//
// Its methods may be called from any goroutine.
type Spent struct {
	room *account.Account // of the first leastSpent proofs
	most int
	key  maphash.Seed

	mu     sync.Mutex       // guards the fields below
	more   *account.Account // of the other proofs: these go when memory is short
	n      int              // proofs
	floor  uint32           // the greatest effort that is worth nothing
	closed bool
	// by has the hashes of nonces by classes of efforts. To forget a class takes no time,
	// however large it is.
	by [classes]map[uint64]struct{}
}

// NewSpent returns an empty memory, which counts on an account.
func NewSpent(room *account.Account) *Spent {
	s := &Spent{room: room, most: MaxSpent, key: maphash.MakeSeed()}
	s.shrink() // opens the account
	return s
}

// Floor returns the greatest effort that is worth nothing.
func (s *Spent) Floor() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.floor
}

// Worthless reports whether proofs of an effort count as none. Those of effort 0 always do.
func (s *Spent) Worthless(effort uint32) bool { return effort <= s.Floor() }

// Has reports whether a proof with this nonce was accepted before.
func (s *Spent) Has(nonce *[16]byte) bool {
	h := s.hash(nonce)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.by {
		if _, ok := c[h]; ok {
			return true
		}
	}
	return false
}

// Add remembers a proof.
func (s *Spent) Add(nonce *[16]byte, effort uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || effort <= s.floor {
		return
	}
	switch {
	case s.n >= s.most, s.n >= leastSpent && s.more.Try(spentCost) != nil:
		if s.forgetLocked(); effort <= s.floor {
			return
		}
		if s.n < leastSpent {
			s.room.Reserve(spentCost)
		} else {
			s.more.Reserve(spentCost)
		}
	case s.n < leastSpent:
		s.room.Reserve(spentCost)
	}
	c := classOf(effort)
	if s.by[c] == nil {
		s.by[c] = map[uint64]struct{}{}
	}
	s.by[c][s.hash(nonce)] = struct{}{}
	s.n++
}

// forgetLocked forgets half of the proofs or more, those with the lowest efforts.
func (s *Spent) forgetLocked() {
	before := s.n
	for c := range s.by {
		if s.n <= before/2 {
			break
		}
		if n := len(s.by[c]); n > 0 {
			s.n -= n
			s.by[c] = nil
			s.floor = max(s.floor, min(greatestOf(c), maxFloor))
		}
	}
	s.more.Release(spentCost * (max(before, leastSpent) - max(s.n, leastSpent)))
	s.room.Release(spentCost * (min(before, leastSpent) - min(s.n, leastSpent)))
}

// shrink gives memory back, because it is short.
func (s *Spent) shrink() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if s.n > leastSpent {
		s.forgetLocked()
	}
	s.more.Close() // what was evicted once is not evicted again
	s.more = s.room.Open(account.Kept, func(error) { s.shrink() })
	s.more.Reserve(spentCost * (max(s.n, leastSpent) - leastSpent))
}

// Close forgets everything.
func (s *Spent) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.more.Close()
	s.room.Release(spentCost * min(s.n, leastSpent))
	s.n, s.by = 0, [classes]map[uint64]struct{}{}
}

// hash is short, to save memory: that two nonces have the same is improbable, and nobody
// can search for such nonces without the key.
func (s *Spent) hash(nonce *[16]byte) uint64 { return maphash.Bytes(s.key, nonce[:]) }

// Efforts up to 15 have classes of their own. From there on, those between one power of two
// and the next have eight.
const classes = 16 + 28*8

func classOf(effort uint32) int {
	if effort < 16 {
		return int(effort)
	}
	above := bits.Len32(effort) - 4 // bits that do not count
	return 16 + 8*(above-1) + int(effort>>above)&7
}

// greatestOf returns the greatest effort of a class.
func greatestOf(class int) uint32 {
	if class < 16 {
		return uint32(class)
	}
	above := (class-16)/8 + 1
	return uint32((uint64(class%8)+9)<<above - 1)
}
