package program

import (
	"net"
	"net/netip"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/socks"
)

// ListenLoopback opens a TCP port at an address of loopback, such as 127.0.0.1:8545. Any other address,
// and any name, is an error of kind chive.ErrConfig. The error for a port that cannot be opened says what
// the user can do.
func ListenLoopback(addr string) (net.Listener, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil || !at.Addr().IsLoopback() {
		return nil, fault.New(fault.Config, "%q is not an address of loopback, such as 127.0.0.1:8545", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, listen.Failed(addr, err)
	}
	return l, nil
}

// ListenUnix opens a unix socket that only this user can connect to, and replaces a socket that nobody
// serves. It refuses to replace any other file, and a socket in use.
func ListenUnix(path string) (net.Listener, error) { return socks.ListenUnix(path) }

// PeerOf returns the network that counts as one peer when strangers connect: an IPv4 address, or an IPv6
// /64, which one subscriber has. All addresses that are unknown, as those of onions are, count as one
// peer, the zero Prefix. Bounds on what a stranger may hold are bounds of such networks.
func PeerOf(remote net.Addr) netip.Prefix {
	if a, ok := remote.(netaddr.Socket); ok {
		return netaddr.Peer(netaddr.Of(a))
	}
	return netip.Prefix{}
}
