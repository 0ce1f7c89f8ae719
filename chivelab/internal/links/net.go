package links

import (
	"net/netip"
	"sync"

	"github.com/chivenet/chive/internal/fault"
)

// Congestion is the congestion control of TCP for hosts that are to be compared however they are attached: gVisor has
// it and so has each Linux. With cubic, gVisor carries less than Linux as soon as one packet of a hundred is lost.
const Congestion = "reno"

// Direction has the rules of one direction, and how they change.
type Direction struct {
	Rules Rules
	Steps []Step
}

// MTU is the least that the direction ever has.
func (d Direction) MTU() int {
	mtu := d.Rules.Defaults().MTU
	for _, s := range d.Steps {
		mtu = min(mtu, s.Rules.Defaults().MTU)
	}
	return mtu
}

// Access is the link of a host: Up leads from it to all others, Down from them to it.
type Access struct{ Up, Down Direction }

// MTU is that of the host's device, so that its own packets fit.
func (a Access) MTU() int { return min(a.Up.MTU(), a.Down.MTU()) }

// Net joins hosts by a middle that takes no time and loses nothing: a packet goes through its
// sender's Up and its receiver's Down. What is for nobody is dropped.
type Net struct {
	seed  uint64
	clock func() clock // of the lines

	mu     sync.RWMutex // guards what follows
	ports  map[netip.Addr]*Port
	made   uint64
	late   Lateness // of ports that are closed
	closed bool
}

// NewNet returns a network without hosts. All chance comes from the seed, and from the order in which
// hosts are attached.
func NewNet(seed uint64) *Net {
	return &Net{seed: seed, clock: newClock, ports: map[netip.Addr]*Port{}}
}

// Port is where a host is attached.
type Port struct {
	net      *Net
	addr     netip.Addr
	up, down *Line
}

// Attach attaches a host. deliver gets the packets for it, keeps them if it wants, and must not wait.
func (n *Net) Attach(addr netip.Addr, a Access, deliver func([]byte)) (*Port, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return nil, fault.New(fault.Closed, "the emulated network is closed")
	case n.ports[addr] != nil:
		return nil, fault.New(fault.Config, "two hosts have the address %v", addr)
	}
	p := &Port{net: n, addr: addr}
	n.made += 2
	var err error
	if p.down, err = newLine(a.Down.Rules, a.Down.Steps, n.seed<<16+n.made, deliver, n.clock); err != nil {
		return nil, err
	}
	if p.up, err = newLine(a.Up.Rules, a.Up.Steps, n.seed<<16+n.made+1, n.pass, n.clock); err != nil {
		p.down.Close()
		return nil, err
	}
	n.ports[addr] = p
	return p, nil
}

// pass hands a packet in the middle to its receiver's link.
func (n *Net) pass(b []byte) {
	to, ok := receiver(b)
	if !ok {
		return
	}
	n.mu.RLock()
	p := n.ports[to]
	n.mu.RUnlock()
	if p != nil {
		p.down.Send(b)
	}
}

// receiver returns the address that an IP packet is for.
func receiver(b []byte) (netip.Addr, bool) {
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		return netip.AddrFromSlice(b[16:20])
	case len(b) >= 40 && b[0]>>4 == 6:
		return netip.AddrFromSlice(b[24:40])
	}
	return netip.Addr{}, false
}

// Send puts a packet of the host in. It belongs to the network from then on.
func (p *Port) Send(b []byte) { p.up.Send(b) }

// Up and Down are the lines of the host.
func (p *Port) Up() *Line   { return p.up }
func (p *Port) Down() *Line { return p.down }

// Close detaches the host. It must not be called by deliver.
func (p *Port) Close() {
	n := p.net
	n.mu.Lock()
	mine := n.ports[p.addr] == p
	if mine {
		delete(n.ports, p.addr)
	}
	n.mu.Unlock()
	p.up.Close()
	p.down.Close()
	if mine {
		n.mu.Lock()
		n.late = n.late.With(p.up.Lateness()).With(p.down.Lateness())
		n.mu.Unlock()
	}
}

// Lateness is that of all lines so far.
func (n *Net) Lateness() Lateness {
	n.mu.RLock()
	defer n.mu.RUnlock()
	late := n.late
	for _, p := range n.ports {
		late = late.With(p.up.Lateness()).With(p.down.Lateness())
	}
	return late
}

// Close detaches all hosts.
func (n *Net) Close() {
	n.mu.Lock()
	n.closed = true
	var ports []*Port
	for _, p := range n.ports {
		ports = append(ports, p)
	}
	n.mu.Unlock()
	for _, p := range ports {
		p.Close()
	}
}
