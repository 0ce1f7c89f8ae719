package account

import (
	"cmp"
	"context"
	"math"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
)

// Memory is the root of a tree of accounts, and knows how much there may be in
// all. Its methods may be called from any goroutine, and on nil, which counts
// nothing.
type Memory struct {
	root  Account
	bound atomic.Int64 // bytes
	// second counts them while Run runs.
	second atomic.Int64
	over   chan struct{}
	tree

	evicted atomic.Uint64
	freed   atomic.Uint64
}

// DefaultMaxMemory bounds what peers can make a role hold, in bytes, where its
// MaxMemory is 0.
const DefaultMaxMemory = 512 << 20

// leastMemory is what a role needs to be of any use.
const leastMemory = 32 << 20

// BoundOf returns the bound for a role's MaxMemory: an eighth less, for what was
// given back and is not collected yet.
func BoundOf(maxMemory uint64) (int64, error) {
	switch {
	case maxMemory == 0:
		maxMemory = DefaultMaxMemory
	case maxMemory < leastMemory || maxMemory > math.MaxInt64/2:
		return 0, fault.New(fault.Config, "MaxMemory: %d bytes are not from %d to %d", maxMemory, leastMemory, int64(math.MaxInt64/2))
	}
	return int64(maxMemory - maxMemory/8), nil
}

// New returns a root that may hold bound bytes; 0: any number. Run enforces that.
func New(bound int64) *Memory {
	m := &Memory{over: make(chan struct{}, 1)}
	m.addresses, m.told = map[netip.Prefix]*Account{}, map[*Account]int64{}
	m.going = map[*Account]int64{}
	m.root.m = m
	m.SetBound(bound)
	return m
}

// SetBound changes how many bytes there may be; 0: any number.
func (m *Memory) SetBound(bound int64) {
	if m == nil {
		return
	}
	if bound == 0 {
		bound = math.MaxInt64
	}
	m.bound.Store(bound)
	if m.Used() > bound {
		m.wake()
	}
}

// Bound returns how many bytes there may be.
func (m *Memory) Bound() int64 {
	if m == nil {
		return 0
	}
	return m.bound.Load()
}

// Used returns how many bytes are counted.
func (m *Memory) Used() int64 {
	if m == nil {
		return 0
	}
	return m.root.used.Load()
}

// Evicted returns how many holders were told to close, and what they held then.
func (m *Memory) Evicted() (holders, bytes uint64) {
	if m == nil {
		return 0, 0
	}
	return m.evicted.Load(), m.freed.Load()
}

// Address returns the account of an address, which all who ask for it share: of
// one IPv4 address, or of one IPv6 /64, which is as easy to have as one address.
// Addresses that are not known share one, too. Each call is paired with one of
// Account.Close.
func (m *Memory) Address(addr netip.Addr) *Account {
	if m == nil {
		return nil
	}
	key := netaddr.Peer(addr)
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.addresses[key]
	if a == nil {
		a = &Account{m: m, parent: &m.root, kind: Address, key: key}
		a.active.Store(m.second.Load())
		m.root.adoptLocked(a)
		m.addresses[key] = a
	}
	a.references++
	return a
}

// Greedy reports whether what is free is little, and the account holds more than
// its share: then it is better refused than evicted, as what is made for it and
// thrown away costs time, too.
func (a *Account) Greedy() bool {
	if a == nil {
		return false
	}
	bound := a.m.bound.Load()
	return a.m.Used() > bound/2 && a.Used() > max(bound/greedyShare, greedyLeast)
}

// greedyShare is how many shares the bound has. Nobody who holds less than one, or
// than greedyLeast, in bytes, is greedy.
const (
	greedyShare = 64
	greedyLeast = 1 << 20
)

func (m *Memory) wake() {
	select {
	case m.over <- struct{}{}:
	default:
	}
}

// Run evicts holders whenever the whole is over its bound, until ctx ends. second
// ticks every second. told hears how many were evicted and what they held; it may
// be nil.
func (m *Memory) Run(ctx context.Context, second <-chan time.Time, told func(holders int, bytes int64)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-second:
			m.second.Add(1)
			m.leaving() // so that nobody who has gone is remembered
			continue
		case <-m.over:
		}
		holders, bytes := m.reclaim()
		if holders > 0 && told != nil {
			told(holders, bytes)
		}
	}
}

// Seldom returns a listener for Run that tells at once, and then once in so long at
// most, of all that were evicted since: a flood must not fill the log.
func Seldom(now func() time.Time, every time.Duration, told func(holders int, bytes int64)) func(int, int64) {
	var holders int
	var bytes int64
	var next time.Time
	return func(n int, held int64) {
		holders += n
		bytes += held
		if t := now(); !t.Before(next) {
			told(holders, bytes)
			holders, bytes, next = 0, 0, t.Add(every)
		}
	}
}

// errEvicted is the cause that holders are closed with.
var errEvicted = fault.New(fault.Resource, "memory: this held the most when there was too much")

// reclaim evicts holders until an eighth of the bound is free, as far as they
// free what they hold.
func (m *Memory) reclaim() (holders int, bytes int64) {
	bound := m.Bound()
	used := m.Used() - m.leaving()
	if used <= bound {
		return 0, 0
	}
	for goal := used - (bound - bound/8); bytes < goal; m.leaving() {
		victims, held := m.choose(goal - bytes)
		if len(victims) == 0 {
			break
		}
		for _, v := range victims {
			v.evict(errEvicted)
		}
		holders += len(victims)
		bytes += held
	}
	m.evicted.Add(uint64(holders))
	m.freed.Add(uint64(bytes))
	return holders, bytes
}

// patience is how many seconds what an evicted holder holds counts as free: it is
// about to be, and others must not go for it.
const patience = 5

// leaving returns the bytes of holders that were told to go and have not yet.
func (m *Memory) leaving() (bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.going)
	for a, since := range m.told {
		n := a.Used()
		if m.second.Load()-since > patience || n <= 0 {
			delete(m.told, a)
			continue
		}
		bytes += n
		for above := a.parent; above != nil; above = above.parent {
			m.going[above] += n
		}
	}
	return bytes
}

// forget drops an account that holds nothing any more from those that were told.
func (m *Memory) forget(a *Account) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.told, a)
}

// held returns what an account holds without what is about to go, which leaving
// has noted: nobody is to be blamed for that.
func (a *Account) held() int64 { return a.Used() - a.m.going[a] }

// choose picks the heaviest holders, which hold goal bytes or are a sixteenth
// of those beside each other: then who is heaviest is asked again.
func (m *Memory) choose(goal int64) (victims []*Account, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.root.heaviestLocked(goal) {
		v.evicting = true
		m.told[v] = m.second.Load()
		victims = append(victims, v)
		bytes += v.Used()
	}
	return victims, bytes
}

// evictable reports whether a, or what is below it, can be evicted: an address
// only by what it holds.
func (a *Account) evictable() bool { return !a.evicting && (a.evict != nil || a.kind == Address) }

// belowLocked returns what of a can be evicted below it, and what that holds.
func (a *Account) belowLocked() (below []*Account, bytes int64) {
	for c := range a.children {
		if c.evictable() {
			below = append(below, c)
			bytes += c.held()
		}
	}
	return below, bytes
}

// maxIdle bounds the seconds that count.
const maxIdle = 30

// weight is what decides who is the heaviest. Idleness counts for what is held
// beyond a small share of the bound: links that are merely open are idle most of
// the time, and must not weigh more than one who fills memory. It counts in full
// for handshakes, which are to be over in a second.
func (a *Account) weight(now int64) int64 {
	held, idle := a.held(), min(now-a.active.Load(), maxIdle)
	if a.kind == Handshake {
		return held * (1 + idle)
	}
	return held + max(0, held-a.m.bound.Load()/idleShare)*idle
}

// idleShare is how many shares the bound has; one may be held idly.
const idleShare = 1024

// heaviestLocked returns the heaviest holders below a: the way goes to the
// heaviest account, on to the heaviest below that, and ends where what an
// account holds by itself is more than any below it does.
func (a *Account) heaviestLocked(goal int64) []*Account {
	below, _ := a.belowLocked()
	now := a.m.second.Load()
	slices.SortFunc(below, func(x, y *Account) int { return cmp.Compare(y.weight(now), x.weight(now)) })
	var victims []*Account
	var bytes int64
	for _, c := range below {
		if !c.leafLocked() {
			if len(victims) > 0 {
				break
			}
			if deeper := c.heaviestLocked(goal); len(deeper) > 0 {
				return deeper
			}
			continue
		}
		victims = append(victims, c)
		if bytes += c.Used(); bytes >= goal || len(victims) > len(below)/16 {
			break
		}
	}
	return victims
}

// leafLocked reports whether a itself is to go, rather than something below it.
func (a *Account) leafLocked() bool {
	if a.evict == nil {
		return false
	}
	below, bytes := a.belowLocked()
	return len(below) == 0 || a.own.Load() > bytes
}
