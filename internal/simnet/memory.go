package simnet

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/chivenet/chive/internal/lab/memconn"
)

// Network is a network of connections in memory, which work in a bubble of virtual
// time (testing/synctest). An address exists while it has a listener. A connection
// to another address is refused at once, or, if the address is in Silent, waits
// for an answer that never comes.
type Network struct {
	mu    sync.Mutex // guards what follows
	at    map[netip.AddrPort]*memconn.Listener
	open  map[int]Dialled // connections whose dialling side is open, by their numbers
	waits map[Dialled]int // dials to Silent
	dials []Dialled
}

// Dialled is one attempt to connect.
type Dialled struct {
	From netip.Addr
	To   netip.AddrPort
}

// Silent are the addresses that never answer (TEST-NET-2).
var Silent = netip.MustParsePrefix("198.51.100.0/24")

// memoryBacklog is how many connections may wait to be accepted.
const memoryBacklog = 64

// NewNetwork returns a network without listeners.
func NewNetwork() *Network {
	return &Network{at: map[netip.AddrPort]*memconn.Listener{}, open: map[int]Dialled{}, waits: map[Dialled]int{}}
}

// Listen accepts connections to an address.
func (m *Network) Listen(addr netip.AddrPort) (net.Listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at[addr] != nil {
		return nil, syscall.EADDRINUSE
	}
	m.at[addr] = memconn.Listen(addr, memoryBacklog, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.at, addr)
	})
	return m.at[addr], nil
}

// Dialer returns a function that dials from an address.
func (m *Network) Dialer(from netip.Addr) func(context.Context, netip.AddrPort) (net.Conn, error) {
	return func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		if Silent.Contains(to.Addr()) {
			m.note(from, to)
			m.wait(Dialled{from, to}, 1)
			defer m.wait(Dialled{from, to}, -1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return m.connect(from, to)
	}
}

func (m *Network) note(from netip.Addr, to netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dials = append(m.dials, Dialled{from, to})
}

func (m *Network) wait(d Dialled, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waits[d] += n; m.waits[d] == 0 {
		delete(m.waits, d)
	}
}

// Waiting counts the dials under way, all of them to addresses in Silent.
func (m *Network) Waiting() map[Dialled]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.waits)
}

func (m *Network) connect(from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	m.note(from, to)
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.at[to]
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	number := len(m.dials)
	a, b := memconn.Pipe(netip.AddrPortFrom(from, uint16(40000+number)), to, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.open, number)
	})
	if !l.Offer(b) {
		return nil, syscall.ECONNREFUSED
	}
	m.open[number] = Dialled{from, to}
	return a, nil
}

// Dials returns all attempts to connect, in order.
func (m *Network) Dials() []Dialled {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Dialled(nil), m.dials...)
}

// Open counts the connections that the dialling side has not closed yet.
func (m *Network) Open() map[Dialled]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[Dialled]int{}
	for _, d := range m.open {
		out[d]++
	}
	return out
}
