// Package account counts the memory that peers make a process hold, and decides
// which holder is evicted when that is too much.
//
// There is one Memory for a process, or for each role in it. It is the root of a
// tree of accounts: addresses, their links, their circuits, and their streams and
// requests. A byte that is reserved on an account also counts on all accounts above
// it. So a peer cannot hide what it holds by spreading it over many circuits.
//
//	Memory
//	  address 192.0.2.1
//	    link
//	      circuit        cells in slabs, onionskin, conflux messages
//	        stream       received chunks, source buffers
//	        request      a directory request and its answer
//	  address 192.0.2.7
//	    connection       of a directory port
//	      upload
//	    kept           an onion service's descriptor
//
// When the total is above its bound, Memory.Run goes from the root to the heaviest
// address, its heaviest link and its heaviest circuits, and evicts these until an
// eighth of the bound is free again. The bytes that a holder has beyond a small
// share of the bound weigh more, the longer it has released nothing. So holders that
// leave data unread are evicted before active holders of the same size. A whole link
// is evicted only if it holds more itself than its circuits do, or before everything
// else if it has had none for a while: see Account.Rest. Links to known relays go
// last: see Account.Last.
//
// Counted is all memory that grows with the data that peers send or leave unread.
// Buffers from pools count with their full size, even if they are almost empty.
// Objects that a peer makes us keep (a link, a circuit, a stream) count with a
// constant, which tests compare with the heap. Not counted are directory documents
// and names that an exit looked up, which have bounds of their own, and garbage that was not freed yet.
package account

import (
	"math"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/chivenet/chive/internal/fault"
)

// Kind is the kind of holder that an account belongs to.
type Kind uint8

// The kinds of accounts.
const (
	Root       Kind = iota
	Address         // all that one IPv4 address, or one IPv6 /64, makes us hold
	Handshake       // a connection whose link handshake is under way
	Link            // an open channel
	Circuit         // a circuit, with all its queues
	Stream          // a stream of a circuit
	Connection      // a connection that carries no channel: a directory port's, an FTE client's
	Request         // a directory request and its answer
	Upload          // the body of an upload
	Kept            // a document that a peer has uploaded and that stays for others
)

// Account is one holder of memory. Its methods may be called from any
// goroutine, and on nil, which counts nothing.
type Account struct {
	m      *Memory
	parent *Account
	evict  func(error) // closes the holder; nil: only accounts below it can be evicted

	used atomic.Int64 // bytes of this account and of all below it
	own  atomic.Int64 // bytes of this account alone; or closed, see there

	// guarded by m.mu: a list for each parent takes less memory than a map
	children   *Account      // the first one
	next, prev *Account      // with the same parent
	shared     *shared       // of an address's account
	active     atomic.Uint32 // the second in which bytes were last released here or below
	kind       Kind
	evicting   bool // evict was called; guarded by m.mu
	rests      bool // see Rest; guarded by m.mu
	last       bool // see Last; guarded by m.mu
}

// shared is what only the account of an address has. Memory's mu guards it.
type shared struct {
	key        netip.Prefix
	references int
}

// closed is the value of own in a closed account. It stays negative whatever is
// added later, and nothing is counted any more.
const closed = math.MinInt64 / 2

// Open returns a new account below a. evict closes the holder with a cause;
// Memory.Run calls it at most once; it need not wait until the memory is free. If
// evict is nil, the holder cannot be evicted by itself.
func (a *Account) Open(kind Kind, evict func(cause error)) *Account {
	if a == nil {
		return nil
	}
	c := &Account{m: a.m, parent: a, kind: kind, evict: evict}
	c.active.Store(a.m.second.Load())
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	a.adoptLocked(c)
	return c
}

func (a *Account) adoptLocked(c *Account) {
	if c.next = a.children; c.next != nil {
		c.next.prev = c
	}
	a.children = c
}

// leave takes a from the tree, unless it is an address's and others use it still.
func (a *Account) leave() bool {
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	if a.shared != nil {
		if a.shared.references--; a.shared.references > 0 {
			return false
		}
		if a.shared.references == 0 {
			delete(a.m.addresses, a.shared.key)
		}
	}
	a.leaveLocked()
	return true
}

// leaveLocked takes a from its parent; further calls do nothing.
func (a *Account) leaveLocked() {
	switch {
	case a.prev != nil:
		a.prev.next = a.next
	case a.parent.children == a:
		a.parent.children = a.next
	default:
		return
	}
	if a.next != nil {
		a.next.prev = a.prev
	}
	a.next, a.prev = nil, nil
}

// Reserve counts n bytes. It never refuses: if the total is above its bound, a
// holder is evicted soon.
func (a *Account) Reserve(n int) {
	if a == nil || a.own.Add(int64(n)) < 0 {
		return
	}
	if a.add(int64(n)) > a.m.bound.Load() {
		a.m.wake()
	}
}

// Try counts n bytes, or refuses if the total would exceed its bound; the error's
// kind is fault.Resource.
func (a *Account) Try(n int) error {
	if a == nil {
		return nil
	}
	if a.own.Add(int64(n)) < 0 {
		return fault.New(fault.Closed, "memory: the holder is closed")
	}
	if bound := a.m.bound.Load(); a.add(int64(n)) > bound {
		a.Release(n)
		return fault.New(fault.Resource, "memory: %d more bytes would exceed the bound of %d", n, bound)
	}
	return nil
}

// Release releases n bytes that were reserved.
func (a *Account) Release(n int) {
	if a == nil || a.own.Add(-int64(n)) < closed/2 {
		return
	}
	now := a.m.second.Load()
	for ; a != nil; a = a.parent {
		a.used.Add(-int64(n))
		if a.active.Load() != now {
			a.active.Store(now)
		}
	}
}

// add counts n bytes here and above, and returns the total at the root.
func (a *Account) add(n int64) (whole int64) {
	for ; a != nil; a = a.parent {
		whole = a.used.Add(n)
	}
	return whole
}

// Close releases all bytes of the account and removes it; later calls of its methods
// count nothing. Accounts below stay until they are closed. Further calls do
// nothing. The account of an address is different: it needs as many calls of Close
// as there were calls of Memory.Address.
func (a *Account) Close() {
	if a == nil {
		return
	}
	if !a.leave() {
		return
	}
	if left := a.own.Swap(closed); left > 0 {
		a.add(-left)
	}
	if a.Used() <= 0 {
		a.m.forget(a)
	}
}

// Used returns the bytes that are counted here and below.
func (a *Account) Used() int64 {
	if a == nil {
		return 0
	}
	return a.used.Load()
}

// tree holds the fields that the lock of a whole tree guards. The lock is taken when
// accounts open and close and when holders are evicted, but not when bytes are
// counted.
type tree struct {
	mu        sync.Mutex // guards what follows
	addresses map[netip.Prefix]*Account
	told      map[*Account]uint32 // holders that were evicted but are not closed yet, and the second of the eviction
	going     map[*Account]int64  // bytes of such holders at and below an account; see Memory.leaving
	sparing   bool                // choose looks for others than those of Last
	spared    map[*Account]int64  // bytes of those of Last at and below an account, while sparing
}
