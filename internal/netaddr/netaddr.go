package netaddr

import "net/netip"

// Plain returns the form in which addresses must be compared: an IPv4-mapped IPv6
// address becomes IPv4, and a zone is removed.
func Plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// PlainPort does the same for an address with a port.
func PlainPort(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(Plain(a.Addr()), a.Port())
}

// Carried returns the IPv4 address inside an IPv6 one, if there is one. An
// IPv4-mapped address does not count: it is IPv4 (see Plain).
func Carried(a netip.Addr) (netip.Addr, bool) {
	a = Plain(a)
	if !a.Is6() {
		return netip.Addr{}, false
	}
	b := a.As16()
	for _, c := range carriers {
		if c.net.Contains(a) {
			v4 := [4]byte(b[c.at:])
			if c.inverted {
				for i := range v4 {
					v4[i] ^= 0xff
				}
			}
			return netip.AddrFrom4(v4), !a.IsUnspecified() && !a.IsLoopback()
		}
	}
	return netip.Addr{}, false
}

// carrier is a kind of IPv6 address that contains an IPv4 address.
type carrier struct {
	net      netip.Prefix
	at       int  // index of the first of the four bytes
	inverted bool // all their bits are inverted
}

var carriers = []carrier{
	{netip.MustParsePrefix("::/96"), 12, false},           // IPv4-compatible (RFC 4291); except :: and ::1
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12, false}, // IPv4-translated (RFC 2765)
	{netip.MustParsePrefix("64:ff9b::/96"), 12, false},    // NAT64 (RFC 6052)
	{netip.MustParsePrefix("2001::/32"), 12, true},        // Teredo (RFC 4380): the address of the client
	{netip.MustParsePrefix("2002::/16"), 2, false},        // 6to4 (RFC 3056)
}

// Public reports whether any host on the Internet may have the address. If it
// carries an IPv4 address, that address decides.
func Public(a netip.Addr) bool {
	a = Plain(a)
	if !a.IsValid() {
		return false
	}
	if c, ok := Carried(a); ok {
		return Public(c)
	}
	public, bits := false, -1
	for i := range special {
		if s := &special[i]; s.net.Bits() > bits && s.net.Contains(a) {
			public, bits = s.public, s.net.Bits()
		}
	}
	return public
}

// Peer returns the network that counts as one peer: an IPv4 address, or an IPv6
// /64, which one subscriber has. All unknown addresses count as one peer, the zero
// Prefix.
func Peer(a netip.Addr) netip.Prefix { return within(a, 32, 64) }

// Network returns the network that counts as one operator's: an IPv4 /16, or an
// IPv6 /48.
func Network(a netip.Addr) netip.Prefix { return within(a, 16, 48) }

func within(a netip.Addr, four, six int) netip.Prefix {
	a = Plain(a)
	bits := six
	if a.Is4() {
		bits = four
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// SameSubnet reports whether two addresses are in one IPv4 /16 or one IPv6 /32
// (path-spec, "choosing relays").
func SameSubnet(a, b netip.Addr) bool {
	a, b = a.Unmap(), b.Unmap()
	switch {
	case a.Is4() && b.Is4():
		x, y := a.As4(), b.As4()
		return [2]byte(x[:]) == [2]byte(y[:])
	case a.Is6() && b.Is6():
		x, y := a.As16(), b.As16()
		return [4]byte(x[:]) == [4]byte(y[:])
	}
	return false
}

// Socket is a net.Addr, which this package does not import.
type Socket interface {
	Network() string
	String() string
}

// OfPort returns the address and port of one end of a connection, in their plain
// form. It is the zero AddrPort for an end that has none, as of a pipe, a Unix
// socket, or a pluggable transport that does not tell its client's.
func OfPort(s Socket) netip.AddrPort {
	if a, ok := s.(interface{ AddrPort() netip.AddrPort }); ok {
		return PlainPort(a.AddrPort())
	}
	return netip.AddrPort{}
}

// Of returns the address of one end of a connection: see OfPort.
func Of(s Socket) netip.Addr { return OfPort(s).Addr() }
