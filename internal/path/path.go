// Package path chooses the relays of a circuit (path-spec 2.2).
//
// The exit is chosen first, then the guard, which must fit the exit, then the
// relays between them, front to back. Every choice is random, weighted by
// bandwidth and by the consensus's weights for the position, among the relays
// that meet all conditions: no relay twice, no two relays of one family or
// subnet, the flags and subprotocols that the circuit needs, the exit policy, and
// the user's configuration.
package path

import (
	"net/netip"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/geoip"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
)

// DefaultHops is the length of a circuit for traffic.
const DefaultHops = 3

// LongLivedPorts are the ports whose connections usually stay open for a long
// time. Circuits to them use relays with the flag Stable (path-spec 2.2).
var LongLivedPorts = []uint16{21, 22, 706, 1863, 5050, 5190, 5222, 5223, 6523, 6667, 6697, 8300}

// LongLived reports whether a port is one of LongLivedPorts.
func LongLived(port uint16) bool { return slices.Contains(LongLivedPorts, port) }

// Config holds the user's choices for paths. The zero Config has no restrictions.
type Config struct {
	Exclude     Set // relays that are never used
	ExcludeExit Set // relays that are never the last hop
	// If not empty, the only relays for a position. If none of them can be used,
	// Choose fails if Strict is set, and uses other relays if not.
	Entry, Middle, Exit Set
	Strict              bool
	// Countries is known if a set names a country. nil: no country is known.
	Countries *geoip.Table
	// Reachable are the addresses that the user's firewall lets this client connect to.
	Reachable Reach
	// SameSubnet allows relays of one /16 (IPv6: /32) in one path, for networks
	// that run on one machine.
	SameSubnet bool
	// SameFamily allows relays of one family in one path.
	SameFamily bool
	// Families are the user's own: no path has two relays of one of them, also where
	// SameFamily is set. As other families, they do not count in layered paths.
	Families []Set
}

// Dest is a destination that the last hop must reach.
type Dest struct {
	Addr netip.Addr // zero if only a host name is known; unspecified: any of its family
	Port uint16     // zero for a RESOLVE
}

// Capability is a subprotocol or another ability that hops must have.
type Capability struct {
	Name string // for errors, such as "ntor-v3"
	Has  func(netdir.Relay) bool
}

// Spec says what a circuit is for. The zero Spec is an internal circuit of
// three hops.
type Spec struct {
	Hops   int    // 0: DefaultHops. 1 is a directory circuit.
	Dests  []Dest // the last hop must allow all of them; none: an internal circuit
	Stable bool   // relays with the flag Stable; implied by long-lived ports

	// Last, when set, is the last hop, which is fixed and not chosen: an
	// introduction point, or the exit of a conflux set's other leg.
	Last *linkspec.Target

	// Layers, when not nil, are the only relays for the second hop, the third, and so on
	// (vanguards), also if the path ends there. The path is then one for onion services,
	// with other rules: see layered.
	Layers [][]ident.RSAID
	// Next is a relay to which the circuit will be extended: it is neither the last hop
	// nor the one before, because relays refuse to extend to themselves and back. Zero:
	// none is known.
	Next ident.RSAID

	// ExitIn, if not empty, are the only relays for the last hop, if it is chosen, whatever Config.Strict says.
	ExitIn Set

	NeedAll  []Capability // every chosen hop must have them
	NeedExit []Capability // the last hop must have them, if it is chosen
	NeedOne  []Capability // at least one hop must have them

	// Exclude lists relays that must not be in this path, for example those of
	// the path that just failed. ExcludeExit lists relays that must not be the
	// last hop, for example exits that refused the stream.
	// ExcludeMiddle lists relays that must not be between the first hop and the last.
	Exclude       []ident.RSAID
	ExcludeExit   []ident.RSAID
	ExcludeMiddle []ident.RSAID
	// Outdated are caches that lack what a path of one hop is for: other guards come before them, if there are enough.
	Outdated []ident.RSAID
}

func (s *Spec) hops() int {
	if s.Hops == 0 {
		return DefaultHops
	}
	return s.Hops
}

func (s *Spec) stable() bool {
	return s.Stable || slices.ContainsFunc(s.Dests, func(d Dest) bool { return LongLived(d.Port) })
}

// Hop is one relay of a path.
type Hop struct {
	Target linkspec.Target
	Relay  netdir.Relay // zero for a bridge, and for a Spec.Last that is not in the directory
}

// Path is the result of a choice.
type Path struct {
	Hops []Hop
	// Guard is the use of the first hop. The caller must report the circuit's
	// fate to it. It is nil if no guard manager took part.
	Guard *guard.Use
}

// Exit returns the last hop.
func (p *Path) Exit() *Hop { return &p.Hops[len(p.Hops)-1] }

// Targets returns the hops as targets for extending a circuit.
func (p *Path) Targets() []linkspec.Target {
	ts := make([]linkspec.Target, len(p.Hops))
	for i := range p.Hops {
		ts[i] = p.Hops[i].Target
	}
	return ts
}

// IDs returns the hops' RSA identities.
func (p *Path) IDs() []ident.RSAID {
	ids := make([]ident.RSAID, len(p.Hops))
	for i := range p.Hops {
		ids[i] = p.Hops[i].Target.RSA
	}
	return ids
}

// Guards is the part of *guard.Manager that Choose needs.
type Guards interface {
	Pick(req guard.Request, now time.Time) (*guard.Use, error)
}

// GuardFilter is the part of the configuration that the guard manager needs. It
// depends on the directory only if Entry is a preference and not strict. Without a
// directory, d is nil, and such a preference counts for nothing yet.
func (c *Config) GuardFilter(d *netdir.Directory) guard.Filter {
	var f guard.Filter
	if c.Reachable != nil {
		f.Reachable = c.Reachable.Allows
	}
	if !c.Exclude.IsZero() {
		f.Exclude = func(g guard.Candidate) bool { return c.Exclude.has(g.ID.RSA, g.Nickname, g.Addrs) }
	}
	if c.Entry.IsZero() {
		return f
	}
	entry := func(g guard.Candidate) bool { return c.Entry.has(g.ID.RSA, g.Nickname, g.Addrs) }
	if !c.Strict {
		possible := false
		if d == nil {
			return f
		}
		for g := range guard.FromNetdir(d).Guards() {
			possible = possible || entry(g) && f.Allows(g)
		}
		if !possible {
			return f
		}
	}
	f.Entry = entry
	return f
}
