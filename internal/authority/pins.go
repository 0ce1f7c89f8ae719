package authority

import (
	"cmp"
	"slices"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// pins record which identities belong together, so that a thief of only one of a
// relay's keys gains nothing. Only relays that have proved both identities in a
// link handshake have a pin, so that relays which do not exist cannot fill the
// memory.
type pins struct {
	rsa map[ident.RSAID]ident.Ed25519ID
	ed  map[ident.Ed25519ID]ident.RSAID
}

// maxPins bounds the pairs of identities.
const maxPins = 1 << 18

// check reports whether the identities may belong together.
func (p *pins) check(rsa ident.RSAID, ed ident.Ed25519ID) error {
	if e, ok := p.rsa[rsa]; ok && e != ed {
		return fault.New(fault.Refused, "another Ed25519 identity was seen with this RSA identity")
	}
	if r, ok := p.ed[ed]; ok && r != rsa {
		return fault.New(fault.Refused, "another RSA identity was seen with this Ed25519 identity")
	}
	return nil
}

// checkPairLocked reports whether a descriptor's identities may belong together. Until
// the first of two relays with one Ed25519 identity has a pin, too, the other is refused:
// C tor's authorities refuse a vote that lists both. The caller holds mu.
func (a *Authority) checkPairLocked(d *netdoc.RouterDesc) error {
	if r := a.relays.byEd[d.Ed]; r != nil && r.desc.RSA != d.RSA {
		return fault.New(fault.Refused, "another relay has this Ed25519 identity")
	}
	return a.pins.check(d.RSA, d.Ed)
}

// add records a pair of identities that check accepts.
func (p *pins) add(rsa ident.RSAID, ed ident.Ed25519ID) {
	if p.rsa == nil {
		p.rsa, p.ed = map[ident.RSAID]ident.Ed25519ID{}, map[ident.Ed25519ID]ident.RSAID{}
	}
	p.rsa[rsa], p.ed[ed] = ed, rsa
}

// thin drops the sixteenth of the pins that is worth least, without those that
// keep selects.
func (p *pins) thin(keep func(ident.RSAID) bool, worth func(ident.RSAID) float64) {
	type pin struct {
		rsa   ident.RSAID
		worth float64
	}
	var list []pin
	for rsa := range p.rsa {
		if !keep(rsa) {
			list = append(list, pin{rsa, worth(rsa)})
		}
	}
	slices.SortFunc(list, func(a, b pin) int { return cmp.Compare(a.worth, b.worth) })
	for _, x := range list[:min(len(list), len(p.rsa)/16+1)] {
		delete(p.ed, p.rsa[x.rsa])
		delete(p.rsa, x.rsa)
	}
}

// pinLocked pins the identities of a relay that has proved them. If there are too
// many pins, it drops those of relays that are gone and were seen for the
// shortest time. The caller holds mu.
func (a *Authority) pinLocked(d *netdoc.RouterDesc) {
	if _, ok := a.pins.rsa[d.RSA]; ok {
		return
	}
	if err := a.pins.check(d.RSA, d.Ed); err != nil { // another relay was faster
		a.removeLocked(a.relays.byRSA[d.RSA])
		return
	}
	if len(a.pins.rsa) >= a.maxPins {
		a.pins.thin(func(id ident.RSAID) bool { return a.relays.byRSA[id] != nil }, a.histories.known)
	}
	a.pins.add(d.RSA, d.Ed)
}
