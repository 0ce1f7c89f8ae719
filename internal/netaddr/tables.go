package netaddr

import (
	"net/netip"
	"slices"
)

// block is a part of the address space, and whether its addresses are public.
type block struct {
	net    netip.Prefix
	public bool
}

func open(s string) block   { return block{netip.MustParsePrefix(s), true} }
func closed(s string) block { return block{netip.MustParsePrefix(s), false} }

// special covers both address spaces; the longest matching prefix decides. It
// follows the IANA's registries "IPv4 Special-Purpose Address Space" and "IPv6
// Special-Purpose Address Space", column "globally reachable", with the differences
// in the package's comment.
var special = []block{
	open("0.0.0.0/0"),
	closed("0.0.0.0/8"),          // this network
	closed("10.0.0.0/8"),         // private use
	closed("100.64.0.0/10"),      // shared by customers of a provider
	closed("127.0.0.0/8"),        // loopback
	closed("169.254.0.0/16"),     // link-local
	closed("172.16.0.0/12"),      // private use
	closed("192.0.0.0/24"),       // protocol assignments
	open("192.0.0.9/32"),         // port control, anycast
	open("192.0.0.10/32"),        // TURN, anycast
	closed("192.88.99.0/24"),     // 6to4 routers, anycast: given up (RFC 7526)
	closed("192.168.0.0/16"),     // private use
	closed("198.18.0.0/15"),      // benchmarks
	closed("224.0.0.0/4"),        // multicast
	closed("240.0.0.0/4"),        // reserved
	closed("255.255.255.255/32"), // broadcast

	closed("::/0"),           // not assigned
	open("2000::/3"),         // global unicast
	closed("2001::/23"),      // protocol assignments
	open("2001:1::1/128"),    // port control, anycast
	open("2001:1::2/128"),    // TURN, anycast
	open("2001:1::3/128"),    // DNS-SD registration, anycast
	open("2001:3::/32"),      // multicast tunnels (AMT)
	open("2001:4:112::/48"),  // AS112
	open("2001:20::/28"),     // ORCHIDv2
	open("2001:30::/28"),     // drones' identifiers
	closed("64:ff9b:1::/48"), // a site's own NAT64
	closed("100::/64"),       // discard
	closed("5f00::/16"),      // segment routing
	closed("fc00::/7"),       // a site's own
	closed("fe80::/10"),      // link-local
	closed("fec0::/10"),      // a site's own, obsolete
	closed("ff00::/8"),       // multicast
}

// exitPrivate is C tor's list, in its order.
var exitPrivate = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("::/8"), netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("ff00::/8"), netip.MustParsePrefix("::/127"),
}

// ExitPrivate returns the networks that "private" means in an exit policy (tor(1),
// ExitPolicy).
func ExitPrivate() []netip.Prefix { return slices.Clone(exitPrivate) }

// IsExitPrivate reports whether a network is one of ExitPrivate. The summary of a
// policy does not count these networks.
func IsExitPrivate(p netip.Prefix) bool { return slices.Contains(exitPrivate, p) }
