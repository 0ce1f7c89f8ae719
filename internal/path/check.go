package path

import (
	"slices"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
)

// reason says why a relay cannot be the hop that is being chosen.
type reason uint8

const (
	fits reason = iota
	notRunning
	noMicrodesc
	lacksFlag
	badExit
	middleOnly
	excluded
	notPreferred
	elsewhere
	tried
	policy
	incapable
	inPath
	family
	subnet
	reasons
)

func (r reason) String() string {
	return [...]string{
		"", "not Running and Valid", "without microdescriptor", "without the needed flags",
		"BadExit", "MiddleOnly", "excluded by the configuration", "not among the preferred relays", "not where the exit must be", "tried already",
		"refusing the destination", "lacking a capability", "in the path already",
		"of a family in the path", "of a subnet in the path",
	}[r]
}

// check holds the conditions on one hop. It tests cheap conditions first, because
// it runs for thousands of relays.
type check struct {
	c      *Config
	d      *netdir.Directory
	spec   *Spec
	flags  netdir.Flags
	last   bool
	middle bool // the hop has no other use than to pass cells on: see middleOK
	near   bool // this is the last hop or the one before: see Spec.Next
	one    bool // this is the last hop to choose, and no other hop has the capability that one hop must have
	prefer *Set // nil: no preference
	path   []Hop
	// layered says that path is the hops before this one in their order, and that the
	// rules of layered paths hold.
	layered bool
}

func (k *check) of(r netdir.Relay) reason {
	switch {
	case !r.Has(netdir.FlagRunning | netdir.FlagValid):
		return notRunning
	case !r.Has(k.flags):
		return lacksFlag
	case !r.HasMicrodesc():
		return noMicrodesc
	case k.prefer != nil && !k.prefer.Has(r):
		return notPreferred
	case k.c.Exclude.Has(r) || k.last && k.c.ExcludeExit.Has(r):
		return excluded
	case k.last && !k.spec.ExitIn.IsZero() && !k.spec.ExitIn.Has(r):
		return elsewhere
	case has(k.spec.Exclude, r) || k.last && has(k.spec.ExcludeExit, r) || k.middle && has(k.spec.ExcludeMiddle, r):
		return tried
	case k.last && !k.exitOK(r):
		return badExit
	case !k.middle && !middleOK(r):
		return middleOnly
	case k.last && !allows(r, k.spec.Dests):
		return policy
	case k.near && !k.spec.Next.IsZero() && r.RSA() == k.spec.Next:
		return inPath
	case !can(r, k.spec.NeedAll) || k.last && !can(r, k.spec.NeedExit) || k.one && !can(r, k.spec.NeedOne):
		return incapable
	}
	if k.layered {
		return k.inOrder(r)
	}
	for i := range k.path {
		if why := k.c.clash(k.d, r, &k.path[i]); why != fits {
			return why
		}
	}
	return fits
}

// exitOK refuses relays that the authorities warn about: they must not see
// plaintext.
func (k *check) exitOK(r netdir.Relay) bool {
	return len(k.spec.Dests) == 0 || !r.Has(netdir.FlagBadExit)
}

// middleOK reports whether a relay may be more than a middle. The authorities suspect those
// with the flag MiddleOnly, so they are no guard, no vanguard, and not where a path ends: it
// may become an exit, an introduction point or a rendezvous point there, or lead to a
// directory.
func middleOK(r netdir.Relay) bool { return !r.Has(netdir.FlagMiddleOnly) }

func has(ids []ident.RSAID, r netdir.Relay) bool {
	return len(ids) > 0 && slices.Contains(ids, r.RSA())
}

func can(r netdir.Relay, need []Capability) bool {
	for i := range need {
		if !need[i].Has(r) {
			return false
		}
	}
	return true
}

// lacksOne reports whether no hop of the path has the capabilities that one hop
// must have.
func (k *check) lacksOne() bool {
	if len(k.spec.NeedOne) == 0 {
		return false
	}
	for i := range k.path {
		if r := k.path[i].Relay; !r.IsZero() && can(r, k.spec.NeedOne) {
			return false
		}
	}
	return true
}

// clash returns the reason why r and hop cannot be in one path.
func (c *Config) clash(d *netdir.Directory, r netdir.Relay, hop *Hop) reason {
	if r.RSA() == hop.Target.RSA {
		return inPath
	}
	if slices.ContainsFunc(c.Families, func(s Set) bool { return s.Has(r) && s.hasHop(hop) }) {
		return family
	}
	if hop.Relay.IsZero() {
		if !c.SameSubnet && sameSubnet(r, &hop.Target) {
			return subnet
		}
		return fits
	}
	if !c.SameSubnet && d.SameSubnet(r, hop.Relay) {
		return subnet
	}
	if !c.SameFamily && d.SameFamily(r, hop.Relay) {
		return family
	}
	return fits
}

// kin reports whether two hops are of one of the user's families.
func (c *Config) kin(a, b *Hop) bool {
	return slices.ContainsFunc(c.Families, func(s Set) bool { return s.hasHop(a) && s.hasHop(b) })
}

// sameSubnet is netdir's SameSubnet for a hop that is not in the directory.
func sameSubnet(r netdir.Relay, t *linkspec.Target) bool {
	for _, ap := range t.Addrs {
		if netaddr.SameSubnet(ap.Addr(), r.IPv4().Addr()) {
			return true
		}
		if six, ok := r.IPv6(); ok && netaddr.SameSubnet(ap.Addr(), six.Addr()) {
			return true
		}
	}
	return false
}

// Allows reports whether an exit's policy summary lets all of dests out. For a
// host name, whose address is not known yet, one address family is enough
// (path-spec 2.2.1, "might support").
func Allows(r netdir.Relay, dests ...Dest) bool { return allows(r, dests) }

func allows(r netdir.Relay, dests []Dest) bool {
	if len(dests) == 0 {
		return true
	}
	four, six := r.Policy4(), r.Policy6()
	for i := range dests {
		d := &dests[i]
		a := d.Addr.Unmap()
		ok4 := !a.Is6() && four != nil && (d.Port == 0 && !four.RejectsAll() || d.Port != 0 && four.AllowsPort(d.Port))
		ok6 := !a.Is4() && six != nil && (d.Port == 0 && !six.RejectsAll() || d.Port != 0 && six.AllowsPort(d.Port))
		if !ok4 && !ok6 {
			return false
		}
	}
	return true
}
