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

// Memory is the root of a tree of accounts, and knows the bound of the total. Its
// methods may be called from any goroutine, and on nil, which counts nothing.
type Memory struct {
	root  Account
	bound atomic.Int64 // bytes
	// second counts the seconds while Run runs.
	second atomic.Uint32
	over   chan struct{}
	tree

	evicted atomic.Uint64
	freed   atomic.Uint64
}

// DefaultMaxMemory bounds what peers can make a role hold, in bytes, where its
// MaxMemory is 0. A relay has another default: see package ram.
const DefaultMaxMemory = 512 << 20

// LeastMemory is what a role needs to be of any use.
const LeastMemory = 32 << 20

// BoundOf returns the bound for a role's MaxMemory, which is 0 or LeastMemory at least: an
// eighth less, for what was given back and is not collected yet.
func BoundOf(maxMemory uint64) int64 {
	if maxMemory == 0 {
		maxMemory = DefaultMaxMemory
	}
	return int64(maxMemory - maxMemory/8)
}

// New returns a root with a bound in bytes; 0 means no bound. Run enforces it.
func New(bound int64) *Memory {
	m := &Memory{over: make(chan struct{}, 1)}
	m.addresses, m.told = map[netip.Prefix]*Account{}, map[*Account]uint32{}
	m.going, m.spared = map[*Account]int64{}, map[*Account]int64{}
	m.root.m = m
	m.SetBound(bound)
	return m
}

// SetBound changes the bound, in bytes; 0 means no bound.
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

// Bound returns the bound, in bytes.
func (m *Memory) Bound() int64 {
	if m == nil {
		return 0
	}
	return m.bound.Load()
}

// Used returns the number of bytes that are counted.
func (m *Memory) Used() int64 {
	if m == nil {
		return 0
	}
	return m.root.used.Load()
}

// Evicted returns how many holders were evicted, and the bytes that they held then.
func (m *Memory) Evicted() (holders, bytes uint64) {
	if m == nil {
		return 0, 0
	}
	return m.evicted.Load(), m.freed.Load()
}

// Address returns the account of an address, which all callers share. It belongs to
// one IPv4 address, or to one IPv6 /64, because a /64 is as easy to get as one
// address. All unknown addresses share one account. Each call needs one call of
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
		a = &Account{m: m, parent: &m.root, kind: Address, shared: &shared{key: key}}
		a.active.Store(m.second.Load())
		m.root.adoptLocked(a)
		m.addresses[key] = a
	}
	a.shared.references++
	return a
}

// Greedy reports whether little memory is free and the account holds more than its
// share. Then it is better to refuse new work from it now than to evict it later,
// which would waste that work.
func (a *Account) Greedy() bool {
	if a == nil {
		return false
	}
	bound := a.m.bound.Load()
	return a.m.Used() > bound/2 && a.Used() > max(bound/greedyShare, greedyLeast)
}

// greedyShare is the number of shares that the bound has. An account that holds less
// than one share, or less than greedyLeast bytes, is not greedy.
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

// Run evicts holders whenever the total is above its bound, until ctx ends. second
// must tick every second. told is called with the number of evicted holders and the
// bytes that they held; it may be nil.
func (m *Memory) Run(ctx context.Context, second <-chan time.Time, told func(holders int, bytes int64)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-second:
			m.second.Add(1)
			m.leaving() // so that closed holders are forgotten
			// An evicted holder that stays counts as leaving for some seconds only. When
			// they are over, others must go, and perhaps nobody reserves more and wakes this.
			if m.Used() <= m.Bound() {
				continue
			}
		case <-m.over:
		}
		holders, bytes := m.reclaim()
		if holders > 0 && told != nil {
			told(holders, bytes)
		}
	}
}

// Seldom returns a callback for Run that calls told at once, and later at most once
// every interval, with the sum of all evictions since. So a flood does not fill the
// log.
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

// errEvicted is the cause with which holders are closed.
var errEvicted = fault.New(fault.Resource, "memory: this was idle, or held the most, when there was too much")

// reclaim evicts holders until an eighth of the bound is free, if the holders free
// all that they hold.
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

// patience is how many seconds the bytes of an evicted holder count as free. They
// will be free soon, and no other holder must be evicted for them.
const patience = 5

// leaving returns the bytes of holders that were evicted but are not closed yet.
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

// forget removes an account that holds nothing any more from the evicted ones.
func (m *Memory) forget(a *Account) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.told, a)
}

// held returns the bytes that an account holds, without those of evicted holders (see
// leaving), which will be free soon, and without those that eviction spares now.
func (a *Account) held() int64 { return a.Used() - a.m.going[a] - a.m.spared[a] }

// choose picks those that rest for the longest time, until they hold goal bytes. If none
// rests, it picks the heaviest holders, until they hold goal bytes or are a sixteenth of
// the holders at their place in the tree. After that the weights must be computed
// again. Those of Last are chosen only when there is nobody else.
func (m *Memory) choose(goal int64) (victims []*Account, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var chosen []*Account
	for _, sparing := range []bool{true, false} {
		m.spareLocked(sparing)
		if chosen = m.root.longestRestingLocked(goal); len(chosen) == 0 {
			chosen = m.root.heaviestLocked(goal)
		}
		if len(chosen) > 0 {
			break
		}
	}
	m.spareLocked(false)
	for _, v := range chosen {
		v.evicting = true
		m.told[v] = m.second.Load()
		victims = append(victims, v)
		bytes += v.Used()
	}
	return victims, bytes
}

// evictable reports whether a, or an account below it, can be evicted. An address
// itself cannot, only what it holds.
func (a *Account) evictable() bool { return !a.evicting && (a.evict != nil || a.kind == Address) }

// belowLocked returns the accounts below a that can be evicted, and the bytes that
// they hold.
func (a *Account) belowLocked() (below []*Account, bytes int64) {
	for c := a.children; c != nil; c = c.next {
		if c.evictable() {
			below = append(below, c)
			bytes += c.held()
		}
	}
	return below, bytes
}

// maxIdle bounds the seconds of idleness that count.
const maxIdle = 30

// weight decides which holder is the heaviest. Idleness counts only for the bytes
// beyond a small share of the bound: links that are merely open are idle most of the
// time, and must not weigh more than a holder that fills memory. For handshakes,
// which should take less than a second, idleness counts for all bytes.
func (a *Account) weight(now uint32) int64 {
	held, idle := a.held(), min(int64(now)-int64(a.active.Load()), maxIdle)
	if a.kind == Handshake {
		return held * (1 + idle)
	}
	return held + max(0, held-a.m.bound.Load()/idleShare)*idle
}

// idleShare is the number of shares of the bound. One share may be held while idle.
const idleShare = 1024

// heaviestLocked returns the heaviest holders below a: it goes to the heaviest
// account, then to the heaviest account below that, and stops at an account that
// holds more itself than any account below it.
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

// leafLocked reports whether a itself must be evicted, and not an account below it.
func (a *Account) leafLocked() bool {
	if a.evict == nil || a.last && a.m.sparing {
		return false
	}
	below, bytes := a.belowLocked()
	return len(below) == 0 || a.own.Load() > bytes
}
