package authority

import (
	"net/netip"
	"slices"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// maxEarly bounds the waiting signatures of one authority that came from an
// address other than its own.
const maxEarly = 8

// early keeps signatures that came before the consensuses were computed. Only an
// authority's own key can have made them, but anybody can send the signatures of
// earlier consensuses again. So each authority has a number of places, and for
// each flavor one more place that only a peer at the authority's address can
// fill.
type early struct {
	own    map[earlyKey]netdoc.DetachedSignatures
	others map[ident.RSAID][]netdoc.DetachedSignatures
}

type earlyKey struct {
	id     ident.RSAID
	flavor string
}

// keep keeps one signature that was checked against a known authority's key.
// digests are those of the document that it came in.
func (e *early) keep(s netdoc.FlavorSignature, digests *netdoc.DetachedSignatures, own bool) error {
	one := *digests
	one.Flavors = slices.DeleteFunc(slices.Clone(digests.Flavors), func(f netdoc.FlavorDigest) bool { return f.Flavor != s.Flavor })
	one.Signatures = []netdoc.FlavorSignature{s}
	if own {
		if e.own == nil {
			e.own = map[earlyKey]netdoc.DetachedSignatures{}
		}
		e.own[earlyKey{s.Identity, s.Flavor}] = one
		return nil
	}
	list := e.others[s.Identity]
	same := func(o netdoc.DetachedSignatures) bool { return slices.Equal(o.Signatures[0].Sig, s.Sig) }
	switch {
	case slices.ContainsFunc(list, same):
		return nil
	case len(list) == maxEarly:
		return fault.New(fault.Resource, "%d signatures of this authority wait already", maxEarly)
	case e.others == nil:
		e.others = map[ident.RSAID][]netdoc.DetachedSignatures{}
	}
	e.others[s.Identity] = append(list, one)
	return nil
}

// all returns the waiting signatures.
func (e *early) all() (out []netdoc.DetachedSignatures) {
	for _, d := range e.own {
		out = append(out, d)
	}
	for _, list := range e.others {
		out = append(out, list...)
	}
	return out
}

// authorityAt reports whether the address is one of the authority's.
func (a *Authority) authorityAt(id ident.RSAID, from netip.Addr) bool {
	x, ok := a.cfg.find(id)
	if !ok || !from.IsValid() {
		return false
	}
	return x.DirPort.Addr().Unmap() == from || slices.ContainsFunc(x.ORPorts, func(p netip.AddrPort) bool { return p.Addr().Unmap() == from })
}

// isAuthority reports whether an address is an authority's.
func (a *Authority) isAuthority(from netip.Addr) bool {
	for _, x := range a.cfg.Network.Authorities {
		if a.authorityAt(x.V3Ident, from) {
			return true
		}
	}
	return false
}

// addSignatures adds signatures of the round's consensuses. from is the address
// of the sender, which may be unknown.
func (a *Authority) addSignatures(d *netdoc.DetachedSignatures, from netip.Addr) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.round
	if now := a.cfg.Now(); d.ValidAfter.After(now) && (r == nil || d.ValidAfter.Before(r.start)) {
		return 0, errLeftOut
	}
	if r == nil {
		return 0, fault.New(fault.Refused, "no round of voting is under way")
	}
	if len(r.pending) == 0 {
		return 0, a.keepEarlyLocked(d, from)
	}
	return a.attachLocked(d)
}

// errLeftOut reports signatures of a round that goes on without this authority, which came too
// late to vote in it, or still waits for relays. To C tor, a refusal would mean that something
// is wrong: it warns its operator.
var errLeftOut = fault.New(fault.Refused, "signatures ignored: this authority has no part in that round")

// errNoCertificate reports signatures that cannot be checked yet.
var errNoCertificate = fault.New(fault.Refused, "the certificate of the authority that made them has not come yet")

// keepEarlyLocked keeps the good signatures of a document until the consensuses
// are computed, whose digests they must match.
func (a *Authority) keepEarlyLocked(d *netdoc.DetachedSignatures, from netip.Addr) error {
	if !d.ValidAfter.Equal(a.round.start) {
		return fault.New(fault.Refused, "signatures of another time's consensus")
	}
	kept, last := 0, error(nil)
	for _, s := range onePerKey(d.Signatures) {
		crt := a.certs[s.KeyPair]
		if crt == nil {
			if last = a.known(s.Identity); last == nil {
				last = errNoCertificate
			}
			continue
		}
		err := d.Check(s, crt)
		if err == nil {
			err = a.round.early.keep(s, d, a.authorityAt(s.Identity, from))
		}
		if err != nil {
			last = err
			continue
		}
		kept++
	}
	if kept > 0 {
		return nil
	}
	return last
}

// onePerKey keeps only the first signature of each key and flavor, so that each
// key costs only one check for each flavor.
func onePerKey(list []netdoc.FlavorSignature) (out []netdoc.FlavorSignature) {
	for _, s := range list {
		if !slices.ContainsFunc(out, func(o netdoc.FlavorSignature) bool { return o.KeyPair == s.KeyPair && o.Flavor == s.Flavor }) {
			out = append(out, s)
		}
	}
	return out
}

// attachFlavorLocked adds one waiting signature, which was kept without the
// digest of the other flavor.
func (a *Authority) attachFlavorLocked(d *netdoc.DetachedSignatures) error {
	for i, c := range a.round.pending {
		if c.Flavor.String() == d.Signatures[0].Flavor {
			_, err := a.attachToLocked(d, i)
			return err
		}
	}
	return nil // a flavor that Chive does not know
}

// attachLocked adds the good signatures.
func (a *Authority) attachLocked(d *netdoc.DetachedSignatures) (added int, err error) {
	for i := range a.round.pending {
		n, e := a.attachToLocked(d, i)
		added += n
		if e != nil {
			err = e
		}
	}
	return added, err
}

// attachToLocked adds the good signatures to one of the round's consensuses. It
// compares digests first, and does not check a signature again that the consensus
// already has: the check costs most.
func (a *Authority) attachToLocked(d *netdoc.DetachedSignatures, i int) (int, error) {
	c := a.round.pending[i]
	if err := d.Same(c); err != nil {
		return 0, err
	}
	good := *d
	good.Signatures = nil
	for _, s := range onePerKey(d.Signatures) {
		crt := a.certs[s.KeyPair]
		has := slices.ContainsFunc(c.Signatures, func(o netdoc.Signature) bool { return o.KeyPair == s.KeyPair && o.Algorithm == s.Algorithm })
		if s.Flavor == c.Flavor.String() && crt != nil && !has && c.CheckSignature(&s.Signature, crt) == nil {
			good.Signatures = append(good.Signatures, s)
		}
	}
	n, err := good.Attach(c)
	if n > 0 {
		a.round.texts[i], a.round.detached = nil, nil
		a.round.noteLocked()
	}
	return n, err
}
