package netdir

import (
	"bytes"
	"iter"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// Directory is an immutable view of one microdescriptor consensus, joined with
// those of its microdescriptors that are present. It keeps no text, so that a
// consensus of 9,000 relays takes only a few megabytes. It is safe for concurrent
// use.
type Directory struct {
	pre       netdoc.Preamble
	factors   [positions][classes]int64
	relays    []relay // in the order of RSA identities
	nicknames string
	six       []netip.AddrPort
	protos    []protover.Set
	mds       []*netdoc.Microdesc // parallel to relays; nil: missing

	edOnce sync.Once
	byEd   []uint16 // relays with an Ed25519 identity, in its order

	cumOnce [positions]sync.Once
	cum     [positions][]uint64 // running sums of weights
}

// relay is one relay of the consensus; values that many relays share are stored
// once, elsewhere.
type relay struct {
	rsa          ident.RSAID
	md           [32]byte
	addr         [4]byte
	flags        netdoc.Flags
	bandwidth    uint32
	nick         uint32 // offset in nicknames
	six          int32  // index in six, or -1
	orPort       uint16
	dirPort      uint16
	proto        uint16
	nickLen      uint8
	hasBandwidth bool
}

// Len returns the number of relays in the consensus.
func (d *Directory) Len() int { return len(d.relays) }

// Relay returns the i-th relay, in the order of RSA identities.
func (d *Directory) Relay(i int) Relay { return Relay{d, i} }

// All yields every relay of the consensus, with or without microdescriptor.
func (d *Directory) All() iter.Seq[Relay] {
	return func(yield func(Relay) bool) {
		for i := range d.relays {
			if !yield(Relay{d, i}) {
				return
			}
		}
	}
}

// Lookup finds a relay by its RSA identity.
func (d *Directory) Lookup(id ident.RSAID) (Relay, bool) {
	i, ok := slices.BinarySearchFunc(d.relays, id, func(r relay, id ident.RSAID) int { return bytes.Compare(r.rsa[:], id[:]) })
	if !ok {
		return Relay{}, false
	}
	return Relay{d, i}, true
}

// LookupEd finds a relay by its Ed25519 identity. It finds only relays whose
// microdescriptor is present.
func (d *Directory) LookupEd(id ident.Ed25519ID) (Relay, bool) {
	d.edOnce.Do(d.indexEd)
	n, found := slices.BinarySearchFunc(d.byEd, id, func(i uint16, id ident.Ed25519ID) int { return bytes.Compare(d.mds[i].Ed[:], id[:]) })
	if !found {
		return Relay{}, false
	}
	return Relay{d, int(d.byEd[n])}, true
}

// Knows reports whether a target is a relay of the consensus, under both its
// identities, and has no address that this relay does not have. Otherwise
// it may be made up.
func (d *Directory) Knows(t *linkspec.Target) bool {
	r, ok := d.Lookup(t.RSA)
	if !ok || r.ID() != t.RelayID {
		return false
	}
	have := r.Target().Addrs
	return !slices.ContainsFunc(t.Addrs, func(a netip.AddrPort) bool { return !slices.Contains(have, a) })
}

func (d *Directory) indexEd() {
	d.byEd = make([]uint16, 0, len(d.relays))
	for i, md := range d.mds {
		if md != nil && !md.Ed.IsZero() {
			d.byEd = append(d.byEd, uint16(i))
		}
	}
	slices.SortFunc(d.byEd, func(a, b uint16) int { return bytes.Compare(d.mds[a].Ed[:], d.mds[b].Ed[:]) })
}

// ValidAfter returns the start of the consensus's validity.
func (d *Directory) ValidAfter() time.Time { return d.pre.ValidAfter }

// FreshUntil returns the time when the next consensus is due.
func (d *Directory) FreshUntil() time.Time { return d.pre.FreshUntil }

// ValidUntil returns the end of the consensus's validity.
func (d *Directory) ValidUntil() time.Time { return d.pre.ValidUntil }

// Live reports whether the consensus is valid at now.
func (d *Directory) Live(now time.Time) bool {
	return !now.Before(d.pre.ValidAfter) && !now.After(d.pre.ValidUntil)
}

// ReasonablyLive reports whether the consensus is valid at now, or at most a day
// outside its validity. Such a consensus is good enough to build circuits while
// the client looks for a newer one.
func (d *Directory) ReasonablyLive(now time.Time) bool { return d.pre.ReasonablyLive(now) }

// Param returns a consensus parameter clamped to [lo, hi], or def if the
// consensus does not set it (param-spec).
func (d *Directory) Param(name string, def, lo, hi int32) int32 {
	return d.pre.Params.Get(name, def, lo, hi)
}

// SharedRandom returns the shared random values of the consensus, each nil if it
// has none.
func (d *Directory) SharedRandom() (previous, current *netdoc.SharedRandom) {
	return d.pre.SharedRandPrevious, d.pre.SharedRandCurrent
}

// ClientVersions returns the versions of C tor that the consensus recommends to clients, with
// commas between them.
func (d *Directory) ClientVersions() string { return d.pre.ClientVersions }

// RequiredOfRelays returns the protocol versions that the consensus requires of relays: what
// every relay that may be in use speaks, listed or not.
func (d *Directory) RequiredOfRelays() protover.Set { return d.pre.RequiredRelay }

// MissingMicrodescs returns the digests of microdescriptors that are missing, in
// the order of the consensus.
func (d *Directory) MissingMicrodescs() [][32]byte {
	var out [][32]byte
	for i, md := range d.mds {
		if md == nil {
			out = append(out, d.relays[i].md)
		}
	}
	return out
}
