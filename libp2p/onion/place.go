package onion

import (
	"encoding/binary"
	"hash/maphash"
	"net"
	"net/netip"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// places names where connections come from or go to for libp2p's resource manager, and for
// nothing else. It limits connections by IP address, how many there are and how often new
// ones begin, and takes all without an address for one place: sixteen of them, and one more
// each five seconds. So each circuit of a client gets an address of its own, and so does
// each onion that is dialled. They are unique local addresses of IPv6 (RFC 4193), in
// different networks of 48 bits, because networks of addresses have limits, too. Nobody
// can choose a circuit whose place is another one's, as the seed is secret.
type places struct{ seed maphash.Seed }

func newPlaces() places { return places{maphash.MakeSeed()} }

// incoming returns the place of the circuit that a connection came over.
func (p places) incoming(c net.Conn) ma.Multiaddr {
	var circuit uint64
	if on, ok := c.(interface{ Circuit() uint64 }); ok {
		circuit = on.Circuit()
	}
	return p.place(maphash.Comparable(p.seed, circuit))
}

// outgoing returns the place of an onion.
func (p places) outgoing(addr string) ma.Multiaddr {
	return p.place(maphash.String(p.seed, addr))
}

func (places) place(n uint64) ma.Multiaddr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], n)
	b[0] = 0xfd
	addr, err := manet.FromNetAddr(net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom16(b), 1)))
	if err != nil {
		panic(err) // an address of 16 bytes and a port are always a multiaddress
	}
	return addr
}
