// Package account counts the memory that peers make a process hold, and decides
// who goes when that is too much.
//
// There is one Memory for a process, or for each role in it. Below it is a tree
// of accounts: an address, its links, their circuits, their streams and
// requests. A byte that is reserved on an account counts for all accounts above
// it too. So a peer cannot hide what it holds by spreading it over many circuits.
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
//
// When the whole is over its bound, Memory.Run goes from the root to the
// heaviest address, its heaviest link and its heaviest circuits, and evicts
// these until an eighth of the bound is free again. What a holder has beyond a
// small share of the bound weighs the more, the longer it has given nothing back:
// those who leave things unread go before those who are at work with as much. A
// link goes as a whole only when it holds more by itself than its circuits do.
//
// What is counted: what grows with what peers send or with what they leave
// unread. Buffers from pools count with their whole size, however little of them
// is used. Objects that a peer makes us keep (a link, a circuit, a stream) count
// with a constant, which tests hold against the heap. What is not counted: what
// a node keeps of the directory, and of names that an exit has looked up, which
// have bounds of their own, and what the garbage collector has not freed yet.
package account

import (
	"math"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/chivenet/chive/internal/fault"
)

// Kind says what an account is for.
type Kind uint8

// The kinds of accounts.
const (
	Root       Kind = iota
	Address         // what comes from one IPv4 address, or one IPv6 /64
	Handshake       // a connection whose link handshake is under way
	Link            // an open channel
	Circuit         // a circuit, with all its queues
	Stream          // a stream of a circuit
	Connection      // a connection that carries no channel: a directory port's, an FTE client's
	Request         // a directory request and its answer
	Upload          // a body that is being posted
)

// Account is one holder of memory. Its methods may be called from any
// goroutine, and on nil, which counts nothing.
type Account struct {
	m      *Memory
	parent *Account
	kind   Kind
	evict  func(error) // closes the holder; nil: only holders below it can be evicted

	used   atomic.Int64 // bytes of this account and of all below it
	own    atomic.Int64 // bytes of this account alone; closed: see there
	active atomic.Int64 // the second in which bytes were last given back here or below

	// guarded by m.mu
	children   map[*Account]struct{}
	evicting   bool         // has been told to close
	references int          // of an address's
	key        netip.Prefix // of an address's
}

// closed marks own of a closed account: whatever is added to it later, it stays
// negative, and nothing is counted any more.
const closed = math.MinInt64 / 2

// Open returns a new account below a. evict closes the holder with a cause; it
// is called once at most, by Memory.Run, and need not wait until the memory is
// free. Nil: the holder cannot be evicted by itself.
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
	if a.children == nil {
		a.children = map[*Account]struct{}{}
	}
	a.children[c] = struct{}{}
}

// Reserve counts n bytes. It never refuses: when the whole is over its bound,
// somebody is evicted soon.
func (a *Account) Reserve(n int) {
	if a == nil || a.own.Add(int64(n)) < 0 {
		return
	}
	if a.add(int64(n)) > a.m.bound.Load() {
		a.m.wake()
	}
}

// Try counts n bytes, or refuses when the whole would go over its bound; the
// error's kind is fault.Resource.
func (a *Account) Try(n int) error {
	if a == nil {
		return nil
	}
	if a.own.Add(int64(n)) < 0 {
		return fault.New(fault.Closed, "memory: the holder is closed")
	}
	if bound := a.m.bound.Load(); a.add(int64(n)) > bound {
		a.Release(n)
		return fault.New(fault.Resource, "memory: %d bytes more are over the bound of %d", n, bound)
	}
	return nil
}

// Release gives back n bytes that were reserved.
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

// add counts n bytes here and above, and returns what the root holds.
func (a *Account) add(n int64) (whole int64) {
	for ; a != nil; a = a.parent {
		whole = a.used.Add(n)
	}
	return whole
}

// Close gives back what is left on the account and forgets it; what is counted
// later is ignored. Accounts below stay until they are closed. Further calls do
// nothing, but for an address's account: that one is closed by as many calls as
// there were of Memory.Address.
func (a *Account) Close() {
	if a == nil {
		return
	}
	a.m.mu.Lock()
	if a.references > 1 {
		a.references--
		a.m.mu.Unlock()
		return
	}
	if a.references == 1 {
		a.references = 0
		delete(a.m.addresses, a.key)
	}
	delete(a.parent.children, a)
	a.m.mu.Unlock()
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

// tree is what the lock of a whole tree guards: it is taken when accounts open
// and close and when somebody is evicted, not when bytes are counted.
type tree struct {
	mu        sync.Mutex
	addresses map[netip.Prefix]*Account
	told      map[*Account]int64 // holders that were told to go, and in which second
	going     map[*Account]int64 // what such hold below an account; see Memory.leaving
}
