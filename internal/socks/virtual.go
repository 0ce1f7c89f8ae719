package socks

import (
	"container/list"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"sync"
)

// maxVirtual is how many names of one network have addresses at a time. The name that was
// wanted longest ago makes room.
const maxVirtual = 1 << 14

// virtual gives names addresses of one network.
//
// The addresses follow each other from a random one. So an address comes back only after all
// others, and a program that still has one from before a restart meets hardly ever another
// name's.
type virtual struct {
	net  netip.Prefix // invalid: no name gets an address
	most int

	mu     sync.Mutex
	next   uint64 // guarded by mu, as all below
	byName map[string]*list.Element
	byAddr map[netip.Addr]*list.Element
	order  list.List // of *named, the last used first
}

type named struct {
	name string
	addr netip.Addr
}

func newVirtual(net netip.Prefix) *virtual {
	v := &virtual{net: net.Masked(), most: maxVirtual, next: rand.Uint64()}
	v.forget()
	return v
}

// forget takes all addresses from their names.
func (v *virtual) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.byName, v.byAddr = map[string]*list.Element{}, map[netip.Addr]*list.Element{}
	v.order.Init()
}

// addr returns a name's address, a new one if it has none.
func (v *virtual) addr(name string) netip.Addr {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at, ok := v.byName[name]; ok {
		v.order.MoveToFront(at)
		return at.Value.(*named).addr
	}
	if last := v.order.Back(); v.order.Len() >= v.most {
		old := v.order.Remove(last).(*named)
		delete(v.byName, old.name)
		delete(v.byAddr, old.addr)
	}
	n := &named{name, v.freeLocked()}
	at := v.order.PushFront(n)
	v.byName[name], v.byAddr[n.addr] = at, at
	return n.addr
}

// freeLocked returns the next address that no name has. There is one: a network has at least
// 2^16 addresses, of which two in 256 are left out. The caller holds mu.
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
	at, ok := v.byAddr[a]
	if !ok {
		return "", false
	}
	v.order.MoveToFront(at)
	return at.Value.(*named).name, true
}

func (v *virtual) has(a netip.Addr) bool { return v.net.IsValid() && v.net.Contains(a) }
