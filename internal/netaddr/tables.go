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

const (
	open   = true
	closed = false
)

// special covers both address spaces; the longest matching prefix decides. It
// follows the IANA's registries "IPv4 Special-Purpose Address Space" and "IPv6
// Special-Purpose Address Space", column "globally reachable", with the differences
// in the package's comment.
var special = blocks(map[string]bool{
	"0.0.0.0/0":          open,
	"0.0.0.0/8":          closed, // this network
	"10.0.0.0/8":         closed, // private use
	"100.64.0.0/10":      closed, // shared by customers of a provider
	"127.0.0.0/8":        closed, // loopback
	"169.254.0.0/16":     closed, // link-local
	"172.16.0.0/12":      closed, // private use
	"192.0.0.0/24":       closed, // protocol assignments
	"192.0.0.9/32":       open,   // port control, anycast
	"192.0.0.10/32":      open,   // TURN, anycast
	"192.88.99.0/24":     closed, // 6to4 routers, anycast: given up (RFC 7526)
	"192.168.0.0/16":     closed, // private use
	"198.18.0.0/15":      closed, // benchmarks
	"224.0.0.0/4":        closed, // multicast
	"240.0.0.0/4":        closed, // reserved
	"255.255.255.255/32": closed, // broadcast

	"::/0":            closed, // not assigned
	"2000::/3":        open,   // global unicast
	"2001::/23":       closed, // protocol assignments
	"2001:1::1/128":   open,   // port control, anycast
	"2001:1::2/128":   open,   // TURN, anycast
	"2001:1::3/128":   open,   // DNS-SD registration, anycast
	"2001:3::/32":     open,   // multicast tunnels (AMT)
	"2001:4:112::/48": open,   // AS112
	"2001:20::/28":    open,   // ORCHIDv2
	"2001:30::/28":    open,   // drones' identifiers
	"64:ff9b:1::/48":  closed, // a site's own NAT64
	"100::/64":        closed, // discard
	"5f00::/16":       closed, // segment routing
	"fc00::/7":        closed, // a site's own
	"fe80::/10":       closed, // link-local
	"fec0::/10":       closed, // a site's own, obsolete
	"ff00::/8":        closed, // multicast
})

func blocks(table map[string]bool) (all []block) {
	for text, public := range table {
		all = append(all, block{netip.MustParsePrefix(text), public})
	}
	return all
}

// exitPrivate is C tor's list, in its order.
var exitPrivate = prefixes(
	"0.0.0.0/8", "169.254.0.0/16", "127.0.0.0/8",
	"192.168.0.0/16", "10.0.0.0/8", "172.16.0.0/12",
	"::/8", "fc00::/7", "fe80::/10",
	"fec0::/10", "ff00::/8", "::/127",
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// ExitPrivate returns the networks that "private" means in an exit policy (tor(1),
// ExitPolicy).
func ExitPrivate() []netip.Prefix { return slices.Clone(exitPrivate) }

// IsExitPrivate reports whether a network is one of ExitPrivate. The summary of a
// policy does not count these networks.
func IsExitPrivate(p netip.Prefix) bool { return slices.Contains(exitPrivate, p) }
