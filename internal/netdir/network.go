// Package netdir is a client's view of a network: its directory authorities, and
// a compact, immutable view of one consensus joined with its microdescriptors,
// from which relays are chosen.
package netdir

import (
	"net/netip"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/ident"
)

// Network lists the authorities that a client trusts for directory information,
// and the caches that it asks first. Nothing else about a network is built in.
type Network struct {
	Name        string      // for display and for the data directory
	Authorities []Authority // whose signatures make a consensus, at least one
	Fallbacks   []Fallback  // caches to ask while there is no consensus; may be empty
	Testing     Testing
}

// Authority is one directory authority.
type Authority struct {
	Nickname string
	V3Ident  ident.RSAID      // digest of the authority's long-term v3 identity key
	RSA      ident.RSAID      // relay identity
	Ed       ident.Ed25519ID  // relay identity; zero when unknown
	ORPorts  []netip.AddrPort // at least one if clients ask the authority through BEGIN_DIR
	DirPort  netip.AddrPort   // invalid if there is none
}

// Fallback is a relay that serves directory information and will probably keep
// its address.
type Fallback struct {
	RSA     ident.RSAID
	Ed      ident.Ed25519ID // zero when unknown
	ORPorts []netip.AddrPort
}

// Testing holds the settings in which a private network is less strict. The zero
// value is as strict as the public network, except that EnforceDistinctSubnets
// must be set: DefaultTesting returns the strict values.
type Testing struct {
	AllowPrivateAddresses  bool          // relays may have loopback and private addresses
	EnforceDistinctSubnets bool          // no two hops of a circuit in one /16 (IPv4) or /32 (IPv6)
	VotingInterval         time.Duration // zero: the consensus's own times
}

// DefaultTesting returns the settings of a network that is not for testing.
func DefaultTesting() Testing { return Testing{EnforceDistinctSubnets: true} }

// V3Idents returns the authorities' v3 identities, in the network's order.
func (n *Network) V3Idents() []ident.RSAID {
	ids := make([]ident.RSAID, len(n.Authorities))
	for i, a := range n.Authorities {
		ids[i] = a.V3Ident
	}
	return ids
}

// AuthorityAddrs returns the addresses of all authorities.
func (n *Network) AuthorityAddrs() []netip.Addr {
	var out []netip.Addr
	for _, a := range n.Authorities {
		for _, p := range append([]netip.AddrPort{a.DirPort}, a.ORPorts...) {
			if p.IsValid() && !slices.Contains(out, p.Addr()) {
				out = append(out, p.Addr())
			}
		}
	}
	return out
}
