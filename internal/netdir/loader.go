package netdir

import (
	"crypto/sha256"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// Loader makes directories from consensuses. Values that successive consensuses
// share are stored once: subprotocol sets, policies, families. It verifies
// nothing: callers must check a consensus's signatures before they use the
// directory. It is not safe for concurrent use, but the directories are.
type Loader struct {
	Shared *Shared // nil: nothing is shared with other loaders

	in netdoc.Interner
}

// Consensus parses a microdescriptor consensus. The directory keeps no reference
// to doc. Its only microdescriptors are those of prev (which may be nil) that the
// new consensus names too. Consensus also returns the parsed consensus, for its
// signatures and digests; its Routers are empty.
func (l *Loader) Consensus(doc []byte, prev *Directory) (*Directory, *netdoc.Consensus, error) {
	if l.Shared != nil {
		d, c, err := l.Shared.parse(doc)
		if err != nil {
			return nil, nil, err
		}
		d = d.with(make([]*netdoc.Microdesc, len(d.relays)))
		if prev != nil {
			d.inherit(prev)
		}
		return d, c, nil
	}
	d, c, err := parse(doc, &l.in)
	if err == nil && prev != nil {
		d.inherit(prev)
	}
	return d, c, err
}

// parse makes a directory without microdescriptors.
func parse(doc []byte, in *netdoc.Interner) (*Directory, *netdoc.Consensus, error) {
	b := builder{d: &Directory{}, protos: map[string]uint16{}}
	c, err := netdoc.ParseConsensus(doc, in, b.add)
	if err != nil {
		return nil, nil, err
	}
	if c.Flavor != netdoc.FlavorMicrodesc {
		return nil, nil, fault.New(fault.Directory, "consensus: flavor %v, not microdesc", c.Flavor)
	}
	d := b.d
	d.pre = c.Preamble
	d.relays = append([]relay(nil), d.relays...) // without spare capacity
	d.nicknames = b.nicks.String()
	d.mds = make([]*netdoc.Microdesc, len(d.relays))
	d.factors = positionFactors(c.BandwidthWeights, int64(d.Param("bwweightscale", 10000, 1, 1<<31-1)))
	return d, c, nil
}

// Microdescs parses microdescriptors and returns the directory with those that it
// names and did not have, their number, and the first error of a microdescriptor
// that could not be parsed. keep is as in Adding.Parse.
func (l *Loader) Microdescs(d *Directory, text []byte, keep func([]byte)) (*Directory, int, error) {
	a := l.Add(d)
	err := a.Parse(text, keep)
	return a.Directory(), a.Added(), err
}

// Adding adds microdescriptors to a directory in several steps, without making a
// directory in each step.
type Adding struct {
	l     *Loader
	d     *Directory
	want  map[[32]byte]int // relays without their microdescriptor, by digest
	mds   []*netdoc.Microdesc
	n     int
	fresh bool // d has all microdescriptors that were added
}

// Add begins to add microdescriptors to d. It does not change d.
func (l *Loader) Add(d *Directory) *Adding {
	return &Adding{l: l, d: d, want: d.missing(), mds: append([]*netdoc.Microdesc(nil), d.mds...), fresh: true}
}

// Parse adds the missing microdescriptors in text. It returns the first error of
// any that it could not parse; it continues after errors. keep, which may be nil,
// is called with the text of each microdescriptor that was added, and must not
// keep a reference to it, unless the loader has a Shared.
func (a *Adding) Parse(text []byte, keep func([]byte)) error {
	var first error
	for one := range netdoc.SplitMicrodescs(text) {
		i, wanted := a.want[sha256.Sum256(one)]
		in := &a.l.in
		if !wanted {
			in = nil // whoever sent it chose what is in it: keep nothing
		}
		md, err := netdoc.ParseMicrodesc(one, in)
		if err != nil && first == nil {
			first = err
		}
		if err != nil || !wanted {
			continue
		}
		delete(a.want, md.Digest)
		a.mds[i] = md
		a.n++
		a.fresh = false
		if s := a.l.Shared; s != nil {
			one = s.keepMicrodesc(md, one)
		}
		if keep != nil {
			keep(one)
		}
	}
	return first
}

// Added returns how many microdescriptors were added so far.
func (a *Adding) Added() int { return a.n }

// Missing returns how many relays are still without their microdescriptor.
func (a *Adding) Missing() int { return len(a.want) }

// Lacks reports whether the microdescriptor of that digest is still missing.
func (a *Adding) Lacks(digest [32]byte) bool {
	_, ok := a.want[digest]
	return ok
}

// Directory returns the directory with all that was added so far.
func (a *Adding) Directory() *Directory {
	if !a.fresh {
		a.d = a.d.with(append([]*netdoc.Microdesc(nil), a.mds...))
		a.fresh = true
	}
	return a.d
}

// builder collects the relays of a consensus.
type builder struct {
	d      *Directory
	nicks  strings.Builder
	protos map[string]uint16
}

func (b *builder) add(rs *netdoc.RouterStatus) error {
	r := relay{
		rsa: rs.RSA, md: rs.Microdesc, addr: rs.Addr.As4(), orPort: rs.ORPort, dirPort: rs.DirPort,
		flags: rs.Flags, bandwidth: rs.Bandwidth, hasBandwidth: rs.HasBandwidth,
		nick: uint32(b.nicks.Len()), nickLen: uint8(len(rs.Nickname)), six: -1,
	}
	b.nicks.WriteString(rs.Nickname)
	for _, ap := range rs.ORAddrs {
		if ap.Addr().Is6() && !ap.Addr().Is4In6() {
			r.six = int32(len(b.d.six))
			b.d.six = append(b.d.six, ap)
			break
		}
	}
	r.proto = index(b.protos, &b.d.protos, rs.Proto, func() protover.Set { return rs.Protocols })
	b.d.relays = append(b.d.relays, r)
	return nil
}

// index returns the index of a value in list. If the key is new, it appends the
// value. A consensus has fewer than 65,536 relays, so an index fits.
func index[T any](m map[string]uint16, list *[]T, key string, value func() T) uint16 {
	i, ok := m[key]
	if !ok {
		i = uint16(len(*list))
		m[key] = i
		*list = append(*list, value())
	}
	return i
}

// missing returns the relays without a microdescriptor, by the digest that the
// consensus names.
func (d *Directory) missing() map[[32]byte]int {
	m := make(map[[32]byte]int)
	for i := range d.relays {
		if d.mds[i] == nil {
			m[d.relays[i].md] = i
		}
	}
	return m
}

// inherit copies from an older directory the microdescriptors that this consensus
// still names.
func (d *Directory) inherit(prev *Directory) {
	byDigest := make(map[[32]byte]*netdoc.Microdesc, len(prev.mds))
	for _, md := range prev.mds {
		if md != nil {
			byDigest[md.Digest] = md
		}
	}
	for i := range d.relays {
		d.mds[i] = byDigest[d.relays[i].md]
	}
}

// with returns the directory with other microdescriptors.
func (d *Directory) with(mds []*netdoc.Microdesc) *Directory {
	return &Directory{
		pre: d.pre, factors: d.factors, relays: d.relays, nicknames: d.nicknames,
		six: d.six, protos: d.protos, mds: mds,
	}
}
