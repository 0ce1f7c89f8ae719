// Package ports leases TCP ports of loopback for programs that need a given port.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/chivenet/chive/internal/fault"
)

// Ports below the kernel's usual range of ephemeral ports (32768 up), so that no
// outgoing connection of any program takes one between its choice and its use;
// and the least number of them that must remain outside another range.
const (
	firstPort = 10240
	lastPort  = 32000
	fewest    = 2000
)

// span returns the ports to choose from, first <= port < last.
var span = sync.OnceValues(func() (first, last int) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil { // another system's kernel
		return firstPort, lastPort
	}
	return outside(string(text))
})

// outside returns the ports to choose from if the kernel assigns the ports of the
// range in text: its first and its last port.
func outside(text string) (first, last int) {
	var low, high int
	if _, err := fmt.Sscan(text, &low, &high); err != nil {
		return firstPort, lastPort
	}
	switch {
	case high < firstPort || low >= lastPort:
		return firstPort, lastPort
	case low-firstPort >= fewest:
		return firstPort, low
	case 1<<16-1-high >= fewest:
		return high + 1, 1 << 16
	}
	return firstPort, lastPort // it assigns all ports
}

// Leases leases TCP ports of loopback addresses. A lease is a UDP socket bound to
// the port of the same number on 127.0.0.1, held until Release: two harnesses at
// work at the same time never choose the same port, and a harness that dies
// leaves nothing behind. The zero value is ready to use.
type Leases struct {
	mu   sync.Mutex
	held []net.PacketConn // guarded by mu
}

// Take leases one port that is free for TCP on every address given.
func (l *Leases) Take(addrs ...netip.Addr) (uint16, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var last error
	first, end := span()
	for range 200 {
		port := uint16(first + rand.IntN(end-first))
		token, err := net.ListenPacket("udp4", netip.AddrPortFrom(loopback4, port).String())
		if err != nil {
			last = err
			continue
		}
		if last = freeTCP(port, addrs); last != nil {
			token.Close()
			continue
		}
		l.held = append(l.held, token)
		return port, nil
	}
	return 0, fault.New(fault.Local, "no free port between %d and %d: %w", first, end, last)
}

func freeTCP(port uint16, addrs []netip.Addr) error {
	for _, a := range addrs {
		ln, err := net.Listen("tcp", netip.AddrPortFrom(a, port).String())
		if err != nil {
			return err
		}
		ln.Close()
	}
	return nil
}

// Release gives all ports back.
func (l *Leases) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.held {
		c.Close()
	}
	l.held = nil
}

var loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
