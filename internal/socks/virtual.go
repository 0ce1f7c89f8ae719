package socks

import (
	"container/list"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// maxVirtual is how many names of one network have addresses at a time. The name that was
// wanted longest ago makes room.
const maxVirtual = 1 << 14

// An address that a name has lost is no other name's for restTime after somebody wanted it last: a program
// that was told the address for mappedTTL seconds may still connect to it. maxResting is how many such
// addresses there are at most. Then no new name gets one, so that nobody who looks up many names can have an
// address of others lead to a name of their own.
const (
	restTime   = 5 * time.Minute
	maxResting = 1 << 15
)

// virtual gives names addresses of one network.
//
// The addresses follow each other from a random one. So an address comes back only after all
// others, and a program that still has one from before a restart meets hardly ever another
// name's.
type virtual struct {
	net               netip.Prefix // invalid: no name gets an address
	most, mostResting int

	mu     sync.Mutex // guards what follows
	next   uint64
	byName map[string]*list.Element
	byAddr map[netip.Addr]*list.Element // nil: the address rests
	order  list.List                    // of *named, the last used first
	rests  list.List                    // of *named, the last used last
}

type named struct {
	name string
	addr netip.Addr
	used time.Time
}

func newVirtual(net netip.Prefix) *virtual {
	return &virtual{
		net: net.Masked(), most: maxVirtual, mostResting: maxResting, next: rand.Uint64(),
		byName: map[string]*list.Element{}, byAddr: map[netip.Addr]*list.Element{},
	}
}

// forget takes all addresses from their names.
func (v *virtual) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.order.Len() > 0 {
		v.retireLocked()
	}
}

// addr returns a name's address, a new one if it has none.
func (v *virtual) addr(name string) (netip.Addr, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at, ok := v.byName[name]; ok {
		return v.useLocked(at).addr, nil
	}
	v.wakeLocked(time.Now())
	if v.rests.Len() >= v.mostResting {
		return netip.Addr{}, fault.New(fault.Resource, "programs have looked up too many names: the virtual network has no address left for a new one, for some minutes")
	}
	if v.order.Len() >= v.most {
		v.retireLocked()
	}
	n := &named{name, v.freeLocked(), time.Now()}
	at := v.order.PushFront(n)
	v.byName[name], v.byAddr[n.addr] = at, at
	return n.addr, nil
}

// useLocked notes that somebody wants a name or its address.
func (v *virtual) useLocked(at *list.Element) *named {
	v.order.MoveToFront(at)
	n := at.Value.(*named)
	n.used = time.Now()
	return n
}

// retireLocked takes the address from the name that was wanted longest ago.
func (v *virtual) retireLocked() {
	old := v.order.Remove(v.order.Back()).(*named)
	delete(v.byName, old.name)
	old.name = ""
	v.byAddr[old.addr] = nil
	v.rests.PushBack(old)
}

// wakeLocked makes addresses free that have rested.
func (v *virtual) wakeLocked(now time.Time) {
	for v.rests.Len() > 0 {
		first := v.rests.Front()
		n := first.Value.(*named)
		if now.Sub(n.used) < restTime {
			return
		}
		v.rests.Remove(first)
		delete(v.byAddr, n.addr)
	}
}

// freeLocked returns the next address that no name has, and that does not rest. There is one: a network
// has at least 2^16 addresses, of which two in 256 are left out, and Forget lets no more than maxVirtual
// rest above maxResting. The caller holds mu.
func (v *virtual) freeLocked() netip.Addr {
	for {
		v.next++
		if last := byte(v.next); last == 0 || last == 255 {
			continue // some programs take these for addresses of networks and broadcasts
		}
		a := v.at(v.next)
		if _, taken := v.byAddr[a]; !taken {
			return a
		}
	}
}

// at returns the address of the network with a number, of which the lowest bits count.
func (v *virtual) at(n uint64) netip.Addr {
	b := v.net.Addr().AsSlice()
	host := min(len(b)*8-v.net.Bits(), 63)
	n &= 1<<host - 1
	if len(b) == 4 {
		binary.BigEndian.PutUint32(b, binary.BigEndian.Uint32(b)|uint32(n))
	} else {
		binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])|n)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// name returns the name that has an address.
func (v *virtual) name(a netip.Addr) (string, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.byAddr[a]
	if at == nil {
		return "", false
	}
	return v.useLocked(at).name, true
}

func (v *virtual) has(a netip.Addr) bool { return v.net.IsValid() && v.net.Contains(a) }
