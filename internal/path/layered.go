package path

import (
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
)

// VanguardAllowed returns the rule for a client's vanguards: the user does not exclude
// the relay, wants it as a middle if there is a choice of middles, and it has what every
// hop must have. Middles that are only preferred count if d has one that can be used.
func (c *Config) VanguardAllowed(d *netdir.Directory, need []Capability) func(netdir.Relay) bool {
	ok := func(r netdir.Relay) bool { return !c.Exclude.Has(r) && can(r, need) }
	if c.Middle.IsZero() {
		return ok
	}
	chosen := func(r netdir.Relay) bool { return c.Middle.Has(r) && ok(r) }
	if !c.Strict {
		possible := false
		for r := range d.All() {
			possible = possible || r.Has(netdir.FlagFast|netdir.FlagStable|netdir.FlagRunning|netdir.FlagValid) && chosen(r)
		}
		if !possible {
			return ok
		}
	}
	return chosen
}

// layered chooses a path with vanguards, front to back. Families and subnets do not
// matter in it: the rules about them would tell an attacker with relays of its own at
// the end of many circuits which relays the vanguards and the guard are not
// (vanguards-spec, "Path construction"). A relay is not in a path twice, except that the
// guard may be the fourth hop or a later one, for the same reason.
func (c *Config) layered(d *netdir.Directory, guards Guards, rng netdir.Rand, spec *Spec, now time.Time) (*Path, error) {
	first, use, err := c.first(d, guards, rng, spec, nil, now)
	if err != nil {
		return nil, err
	}
	hops := []Hop{first}
	for n := spec.hops(); len(hops) < n; {
		r, err := c.nextOf(hops, n, d, rng, spec)
		if err != nil {
			cancel(use, now)
			return nil, err
		}
		hops = append(hops, hop(r))
	}
	return &Path{hops, use}, nil
}

func cancel(use *guard.Use, now time.Time) {
	if use != nil {
		use.Cancelled(now)
	}
}

// nextOf chooses the hop after hops, of n.
func (c *Config) nextOf(hops []Hop, n int, d *netdir.Directory, rng netdir.Rand, spec *Spec) (netdir.Relay, error) {
	at := len(hops)
	k := check{c: c, d: d, spec: spec, path: hops, layered: true, near: at >= n-2}
	k.one = at == n-1 && k.lacksOne()
	if at <= len(spec.Layers) {
		return k.member(rng, spec.Layers[at-1], at == n-1)
	}
	if at == n-1 {
		k.last = true
		return k.pick(rng, netdir.PosMiddle, nil, "last relay", wanted(spec))
	}
	k.middle = true
	return k.pick(rng, netdir.PosMiddle, &c.Middle, "middle relay", "")
}

// member chooses one of a layer, all with the same chance: their bandwidths have counted
// when they became members. None other takes their place.
func (k *check) member(rng netdir.Rand, layer []ident.RSAID, last bool) (netdir.Relay, error) {
	var fit []netdir.Relay
	for _, id := range layer {
		r, ok := k.d.Lookup(id)
		if !ok || k.of(r) != fits || last && slices.Contains(k.spec.ExcludeExit, id) {
			continue
		}
		fit = append(fit, r)
	}
	if len(fit) == 0 {
		return netdir.Relay{}, fault.New(fault.Directory, "%w vanguard for hop %d: of %d, none fits", ErrNone, len(k.path)+1, len(layer))
	}
	return fit[rng.Uint64N(uint64(len(fit)))], nil
}

// inOrder is the rule about which relays may follow the path.
func (k *check) inOrder(r netdir.Relay) reason {
	id := r.RSA()
	before := k.path
	if len(before) >= 3 {
		before = before[1:] // the guard
	}
	if slices.ContainsFunc(before, func(h Hop) bool { return h.Target.RSA == id }) {
		return inPath
	}
	return fits
}
