package path

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
)

// ErrNone is in the chain of an error if no relay of the directory meets the
// conditions. A second attempt with the same arguments fails too.
var ErrNone = errors.New("path: no")

// maxHops bounds a path: of the RELAY_EARLY cells of a client only seven are sure, one for each extension.
const maxHops = 8

// attempts is how many exits are tried in small networks, where an exit may leave
// no relays for the rest of the path.
const attempts = 8

// Choose chooses a path. guards may be nil: then the first hop is any relay with
// the flag Guard. Use this for tests such as reachability, never for a client's
// traffic. Equal arguments and random numbers give equal paths.
func (c *Config) Choose(d *netdir.Directory, guards Guards, rng netdir.Rand, spec *Spec, now time.Time) (*Path, error) {
	n := spec.hops()
	if n < 1 || n > maxHops || n == 1 && (spec.Last != nil || len(spec.Dests) > 0) || spec.Layers != nil && (spec.Last != nil || len(spec.Dests) > 0) {
		return nil, fault.New(fault.Config, "path: %d hops for this purpose", n)
	}
	if n == 1 {
		first, use, err := c.first(d, guards, rng, spec, nil, now)
		if err != nil {
			return nil, err
		}
		return &Path{[]Hop{first}, use}, nil
	}
	var err error
	for range attempts {
		var p *Path
		var other bool
		if p, other, err = c.try(d, guards, rng, spec, now); err == nil {
			return p, nil
		}
		if !other {
			break
		}
	}
	return nil, err
}

// try chooses a path once. again is true if another exit might succeed.
func (c *Config) try(d *netdir.Directory, guards Guards, rng netdir.Rand, spec *Spec, now time.Time) (p *Path, again bool, err error) {
	if spec.Layers != nil {
		p, err = c.layered(d, guards, rng, spec, now)
		return p, !fault.Is(err, fault.Network), err
	}
	last, err := c.last(d, rng, spec)
	if err != nil {
		return nil, false, err
	}
	again = spec.Last == nil
	first, use, err := c.first(d, guards, rng, spec, []Hop{last}, now)
	if err != nil {
		return nil, again && !fault.Is(err, fault.Network), err
	}
	taken := []Hop{last, first}
	for len(taken) < spec.hops() {
		k := check{c: c, d: d, spec: spec, path: taken, middle: true}
		k.near = len(taken) == spec.hops()-1
		k.one = k.near && k.lacksOne()
		r, err := k.pick(rng, netdir.PosMiddle, &c.Middle, "middle relay", "")
		if err != nil {
			if use != nil {
				use.Cancelled(now)
			}
			return nil, again, err
		}
		taken = append(taken, hop(r))
	}
	return &Path{append(taken[1:len(taken):len(taken)], last), use}, false, nil
}

func hop(r netdir.Relay) Hop { return Hop{r.Target(), r} }

// known returns the hop for a target, with its relay if the directory has it.
func known(d *netdir.Directory, t linkspec.Target) Hop {
	r, _ := find(d, t.RelayID)
	return Hop{t, r}
}

// find is LookupID, except that it also finds a relay whose Ed25519 identity is
// unknown because its microdescriptor is missing.
func find(d *netdir.Directory, id ident.RelayID) (netdir.Relay, bool) {
	r, ok := d.Lookup(id.RSA)
	if !ok {
		return netdir.Relay{}, false
	}
	if has := r.ID().Ed; !id.Ed.IsZero() && !has.IsZero() && has != id.Ed {
		return netdir.Relay{}, false
	}
	return r, true
}

func (c *Config) last(d *netdir.Directory, rng netdir.Rand, spec *Spec) (Hop, error) {
	if spec.Last != nil {
		return known(d, *spec.Last), nil
	}
	k := check{c: c, d: d, spec: spec, last: true, near: true}
	pos, what, set := netdir.PosExit, "exit", &c.Exit
	if len(spec.Dests) == 0 {
		pos, what, set = netdir.PosMiddle, "last relay", nil
	}
	r, err := k.pick(rng, pos, set, what, wanted(spec))
	if err != nil {
		return Hop{}, err
	}
	return hop(r), nil
}

// first chooses the first hop, through guards if it is not nil.
func (c *Config) first(d *netdir.Directory, guards Guards, rng netdir.Rand, spec *Spec, taken []Hop, now time.Time) (Hop, *guard.Use, error) {
	k := check{c: c, d: d, spec: spec, path: taken, near: spec.hops() <= 2}
	k.one = len(taken) == spec.hops()-1 && k.lacksOne()
	if guards == nil {
		k.flags = netdir.FlagGuard
		pos := netdir.PosGuard
		if spec.hops() == 1 {
			k.flags, pos = netdir.FlagV2Dir, netdir.PosDir
		}
		r, err := k.pick(rng, pos, &c.Entry, "first relay", "")
		if err != nil {
			return Hop{}, nil, err
		}
		return hop(r), nil, nil
	}
	req := guard.Request{Allow: k.allowsGuard}
	if spec.hops() == 1 {
		req.Purpose = guard.Directory1Hop
	}
	if len(spec.Outdated) > 0 {
		req.Outdated = func(g guard.Candidate) bool { return slices.Contains(spec.Outdated, g.ID.RSA) }
	}
	use, err := guards.Pick(req, now)
	if err != nil {
		return Hop{}, nil, fault.New(fault.KindOf(err), "path: %w", err)
	}
	g := use.Guard()
	if g.Bridge {
		if !g.Complete && spec.hops() > 1 {
			use.Cancelled(now)
			return Hop{}, nil, fault.New(fault.Directory, "path: the bridge's descriptor is missing")
		}
		return Hop{Target: linkspec.Target{RelayID: g.ID, Addrs: g.Addrs, Ntor: g.Ntor, Proto: g.Proto}}, use, nil
	}
	r, ok := find(d, g.ID)
	if spec.hops() > 1 && (!ok || !r.HasMicrodesc()) { // a newer directory may not list it
		use.Cancelled(now)
		return Hop{}, nil, fault.New(fault.Directory, "path: the guard's microdescriptor is missing")
	}
	if ok {
		return hop(r), use, nil
	}
	return Hop{Target: linkspec.Target{RelayID: g.ID, Addrs: g.Addrs}}, use, nil
}

// allowsGuard reports whether the rest of the path allows a guard. The guard
// manager checks the configuration: see GuardFilter.
func (k *check) allowsGuard(g guard.Candidate) bool {
	r, ok := find(k.d, g.ID)
	if k.near && !k.spec.Next.IsZero() && g.ID.RSA == k.spec.Next || slices.Contains(k.spec.Exclude, g.ID.RSA) {
		return false
	}
	if !ok { // a bridge
		if k.one {
			return false // its capabilities are not known
		}
		bridge := Hop{Target: linkspec.Target{RelayID: g.ID, Addrs: g.Addrs}}
		for i := range k.path {
			h := &k.path[i]
			if h.Target.RSA == g.ID.RSA || k.c.kin(h, &bridge) || !h.Relay.IsZero() && k.c.clash(k.d, h.Relay, &bridge) != fits {
				return false
			}
		}
		return true
	}
	if !can(r, k.spec.NeedAll) || k.one && !can(r, k.spec.NeedOne) {
		return false
	}
	for i := range k.path {
		if k.c.clash(k.d, r, &k.path[i]) != fits {
			return false
		}
	}
	return true
}

// pick chooses a relay for one hop. It gives up preferences one after another
// until a relay fits: Stable, Fast, and last, if it is not strict, the user's
// set.
func (k *check) pick(rng netdir.Rand, pos netdir.Position, set *Set, what, wanted string) (netdir.Relay, error) {
	base := k.flags
	ok := func(r netdir.Relay) bool { return k.of(r) == fits }
	preferred := []*Set{nil}
	if set != nil && !set.IsZero() {
		preferred = []*Set{set, nil}
		if k.c.Strict {
			preferred = preferred[:1]
		}
	}
	wishes := []netdir.Flags{netdir.FlagFast, 0}
	if k.spec.stable() {
		wishes = []netdir.Flags{netdir.FlagFast | netdir.FlagStable, netdir.FlagFast, 0}
	}
	for _, k.prefer = range preferred {
		for _, wish := range wishes {
			k.flags = base | wish
			if r, found := k.d.Pick(rng, pos, ok); found {
				return r, nil
			}
		}
	}
	return netdir.Relay{}, k.none(what, wanted)
}

// none returns an error that says what was wanted and why no relay fits: it
// counts the first condition that each relay fails.
func (k *check) none(what, wanted string) error {
	var count [reasons]int
	for r := range k.d.All() {
		count[k.of(r)]++
	}
	var why []string
	for r, n := range count {
		if n > 0 {
			why = append(why, fmt.Sprintf("%d %v", n, reason(r)))
		}
	}
	kind := fault.Directory
	if count[policy] > 0 && count[noMicrodesc]+count[tried]+count[incapable]+count[inPath]+count[family]+count[subnet] == 0 {
		kind = fault.Refused // no exit policy allows it, so no other choice helps
	}
	if count[excluded]+count[notPreferred]+count[elsewhere] > 0 {
		kind = fault.Config
	}
	if k.d.Len() == 0 {
		why = []string{"there are none"}
	}
	return fault.New(kind, "%w %s%s: of %d relays, %s", ErrNone, what, wanted, k.d.Len(), strings.Join(why, ", "))
}

// wanted describes a Spec's destinations without naming addresses.
func wanted(spec *Spec) string {
	var b strings.Builder
	for i, d := range spec.Dests {
		if i == 0 {
			b.WriteString(" for ")
		} else {
			b.WriteString(", ")
		}
		switch {
		case d.Port == 0:
			b.WriteString("name lookups")
		default:
			fmt.Fprintf(&b, "port %d", d.Port)
		}
		if a := d.Addr.Unmap(); a.Is6() {
			b.WriteString(" over IPv6")
		} else if a.Is4() {
			b.WriteString(" over IPv4")
		}
	}
	if !spec.ExitIn.IsZero() {
		b.WriteString(" in " + spec.ExitIn.String())
	}
	sep := " with "
	for _, n := range [][]Capability{spec.NeedAll, spec.NeedExit, spec.NeedOne} {
		for _, c := range n {
			b.WriteString(sep + c.Name)
			sep = ", "
		}
	}
	return b.String()
}
