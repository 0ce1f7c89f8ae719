package sidecar

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// process is what the operating system says of the node's process.
type process struct {
	args    []string                 // its command line
	started string                   // the process itself, and not another that has its number later
	sockets map[socket]bool          // those by which it can reach others, or be reached
	again   func() (*process, error) // looks at it once more
	listens map[uint16]bool          // the ports at which it takes connections
}

// A socket is one of the node's by which something leaves or enters the machine, or can do so.
type socket struct {
	kind socketKind
	port uint16 // its own, if it waits for others; else that of the other end; zero: none
}

// socketKind is what a socket is for.
type socketKind string

// The kinds, with the words for them.
const (
	udpSocket    socketKind = "UDP"
	listening    socketKind = "listening"
	connection   socketKind = "connection"
	toNameServer socketKind = "name server" // of loopback: it asks others
	rawSocket    socketKind = "raw"         // IP, ICMP and others without ports
)

// namePort is the port of name servers.
const namePort = 53

// classify says by which kind of socket something can leave the machine: by the table of the kernel in which the
// socket is, whether it waits for connections, and its two ends. ok is false if nothing can.
func classify(table string, waits bool, local, remote netip.AddrPort) (s socket, ok bool) {
	// What is bound to loopback cannot send to others, nor the other way round: the kernel drops it.
	outside := !local.Addr().IsLoopback()
	connected := remote.IsValid() && !remote.Addr().IsUnspecified()
	switch {
	case connected && remote.Addr().IsLoopback():
		return socket{toNameServer, namePort}, remote.Port() == namePort && !waits
	case strings.HasPrefix(table, "raw") || strings.HasPrefix(table, "icmp"):
		return socket{rawSocket, 0}, outside
	case strings.HasPrefix(table, "udp"):
		if connected {
			return socket{udpSocket, remote.Port()}, true
		}
		return socket{udpSocket, local.Port()}, outside
	case waits:
		return socket{listening, local.Port()}, outside
	}
	return socket{connection, remote.Port()}, connected
}

// of returns the sockets of a kind, as ports: addresses are in no log.
func (p *process) of(kind socketKind) (seen []string) {
	var ports []uint16
	for s := range p.sockets {
		if s.kind == kind {
			ports = append(ports, s.port)
		}
	}
	slices.Sort(ports)
	for i, port := range ports {
		if i == maxSaid {
			return append(seen, fmt.Sprintf("and %d more", len(ports)-maxSaid))
		}
		seen = append(seen, fmt.Sprintf("port %d", port))
	}
	return seen
}

// maxSaid bounds the ports that are told of one leak.
const maxSaid = 5

// maxWatched bounds the sockets that a watch keeps, of each process. Who has so many leaks anyhow.
const maxWatched = 1000

// merge adds what the process has shown before.
func (p *process) merge(before map[socket]bool) {
	for s := range before {
		if len(p.sockets) >= maxWatched {
			return
		}
		p.sockets[s] = true
	}
}
