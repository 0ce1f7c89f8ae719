package lab

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/memconn"
)

// maxInKernel is the largest network whose nodes speak through the kernel's loopback. Each link of a network in one
// process takes two open files, and a thousand relays have ten thousand links.
const maxInKernel = 200

// memoryBacklog is how many connections may wait at a port of a node to be accepted: a network's relays come to an
// authority at the same time.
const memoryBacklog = 2048

// memory is a network in memory for the nodes of this process. Each node has an address of its own on the loopback
// network, which the kernel does not know.
type memory struct {
	mu    sync.Mutex // guards what follows
	hosts uint32
	ports uint16 // the last that a listener or a connection got
	at    map[netip.AddrPort]*memconn.Listener
}

// Host returns another node's place: see Options.Host.
func (m *memory) Host(string) (Host, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hosts++
	n := m.hosts
	return &memoryHost{m, netip.AddrFrom4([4]byte{127, byte(64 + n>>16), byte(n >> 8), byte(n)})}, nil
}

// memoryHost is one node's place in memory.
type memoryHost struct {
	m    *memory
	addr netip.Addr
}

// Addr implements Host.
func (h *memoryHost) Addr() netip.Addr { return h.addr }

// Listen implements Host.
func (h *memoryHost) Listen(port uint16) (net.Listener, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if port == 0 {
		port = h.m.portLocked()
	}
	at := netip.AddrPortFrom(h.addr, port)
	if h.m.at[at] != nil {
		return nil, fault.Wrap(fault.Local, syscall.EADDRINUSE)
	}
	if h.m.at == nil {
		h.m.at = map[netip.AddrPort]*memconn.Listener{}
	}
	h.m.at[at] = memconn.Listen(at, memoryBacklog, func() { h.m.forget(at) })
	return h.m.at[at], nil
}

func (m *memory) forget(at netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.at, at)
}

// portLocked returns a port that is not one of the fixed ones.
func (m *memory) portLocked() uint16 {
	const first = 20000
	if m.ports < first || m.ports == 65535 {
		m.ports = first
	}
	m.ports++
	return m.ports
}

// Dial implements Host.
func (h *memoryHost) Dial(_ context.Context, to netip.AddrPort) (net.Conn, error) {
	l, from := h.m.find(h.addr, to)
	if l == nil {
		return nil, fault.Wrap(fault.Network, syscall.ECONNREFUSED)
	}
	a, b := memconn.Pipe(from, to, nil)
	if !l.Offer(b) {
		return nil, fault.Wrap(fault.Network, syscall.ECONNREFUSED)
	}
	return a, nil
}

// find returns the listener at an address, or nil, and an address for the other end of a connection to it.
func (m *memory) find(host netip.Addr, to netip.AddrPort) (*memconn.Listener, netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at[to], netip.AddrPortFrom(host, m.portLocked())
}
