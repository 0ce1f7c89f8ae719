package authority

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// noPublished is the date of every relay in microdesc consensuses since method
// 33. It makes diffs smaller.
var noPublished = time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC)

// maxUnmeasured caps the weight of relays with too few measurements, in kilobytes
// a second, unless the parameter maxunmeasuredbw sets another value.
const maxUnmeasured = 20

// opinion is the entry of a relay in one authority's vote.
type opinion struct {
	*netdoc.RouterStatus
	voter int
	// reflects says that the entry's Ed25519 identity is the one that the
	// majority has for this RSA identity.
	reflects bool
}

// collate calls f for every relay that a majority may list, with its entries in the
// votes, in the order of identities and of voters. If a majority agrees on both
// identities, it omits the entries with another Ed25519 identity (dir-spec,
// "computing a consensus").
//
// It reads all votes side by side: their relays are in the order of identities. The
// entries are valid until f returns.
func collate(votes []*netdoc.Vote, authorities int, f func([]opinion)) error {
	in := new(netdoc.Interner)
	readers := make([]*netdoc.VoteEntries, len(votes))
	next := make([]*netdoc.RouterStatus, len(votes))
	for i, v := range votes {
		readers[i] = v.Entries(in)
		var err error
		if next[i], err = readers[i].Next(); err != nil {
			return err
		}
	}
	var list []opinion
	for {
		var first *netdoc.RouterStatus
		for _, rs := range next {
			if rs != nil && (first == nil || bytes.Compare(rs.RSA[:], first.RSA[:]) < 0) {
				first = rs
			}
		}
		if first == nil {
			return nil
		}
		list = list[:0]
		for i, rs := range next {
			if rs != nil && rs.RSA == first.RSA {
				list = append(list, opinion{RouterStatus: rs, voter: i})
			}
		}
		if one := agreed(list, authorities); len(one) > authorities/2 {
			f(one)
		}
		for _, o := range list {
			var err error
			if next[o.voter], err = readers[o.voter].Next(); err != nil {
				return err
			}
		}
	}
}

// agreed returns the entries of one relay without those that the majority does not agree with.
func agreed(list []opinion, authorities int) []opinion {
	for _, o := range list {
		n := 0
		for _, p := range list {
			if p.EdListed && p.Ed == o.Ed {
				n++
			}
		}
		if o.EdListed && n > authorities/2 {
			return agreeing(list, o.Ed)
		}
	}
	return list
}

// agreeing returns the entries with the Ed25519 identity ed, and those without an
// opinion on it.
func agreeing(list []opinion, ed ident.Ed25519ID) []opinion {
	var out []opinion
	for _, o := range list {
		if o.EdListed && o.Ed != ed {
			continue
		}
		o.reflects = o.EdListed
		out = append(out, o)
	}
	return out
}

// routers computes the entries of both flavors.
func (c *computation) routers() error {
	measuring := 0
	for _, v := range c.votes {
		if v.Measures {
			measuring++
		}
	}
	limit := max(1, c.param("maxunmeasuredbw", maxUnmeasured))
	flags := c.flagVoters()
	return collate(c.votes, c.rules.Authorities, func(list []opinion) {
		rs, listed := c.router(list, flags)
		if !listed {
			return
		}
		setBandwidth(&rs, list, measuring, uint32(limit))
		c.ns.Routers = append(c.ns.Routers, rs)
		if rs.Microdesc == [32]byte{} {
			return
		}
		if rs.Policy = nil; c.ns.Method >= methodNoPublished {
			rs.Published = noPublished
		}
		c.micro.Routers = append(c.micro.Routers, rs)
	})
}

// router computes one entry, of the ns flavor, without its bandwidth, and reports whether the
// consensus lists the relay: it must be Running and Valid.
func (c *computation) router(list []opinion, voters flagVoters) (rs netdoc.RouterStatus, listed bool) {
	most := popular(list)
	same := func(o opinion) bool { return compareStatus(o.RouterStatus, most) == 0 }
	rs = netdoc.RouterStatus{
		Nickname: most.Nickname, RSA: most.RSA, Descriptor: most.Descriptor, Published: most.Published,
		Addr: most.Addr, ORPort: most.ORPort, DirPort: most.DirPort,
	}
	if rs.Flags, listed = voters.choose(list, c.rules.Authorities, c.ns.KnownFlags); !listed {
		return rs, false
	}
	var alt []netip.AddrPort
	var digests [][32]byte
	for _, o := range list {
		if !same(o) {
			continue
		}
		if i := slices.IndexFunc(o.ORAddrs, func(a netip.AddrPort) bool { return a.Addr().Is6() && a.Port() != 0 }); i >= 0 {
			alt = append(alt, o.ORAddrs[i])
		}
		if d, ok := findMicrodesc(o.RouterStatus, c.ns.Method); ok {
			digests = append(digests, d)
		}
	}
	if a, n := mostFrequent(alt, compareORAddr); n > 0 {
		rs.ORAddrs = []netip.AddrPort{a}
	}
	if d, n := mostFrequent(digests, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) }); n > 0 {
		rs.Microdesc = d
	}
	rs.Version = chooseVersion(list)
	rs.Proto, _ = mostFrequent(each(list, func(o opinion) string { return o.Proto }), strings.Compare)
	rs.Policy = choosePolicy(list, rs.Descriptor)
	return rs, true
}

// chooseVersion returns the version with the most votes, the highest if several
// have equally many.
func chooseVersion(list []opinion) string {
	var all []string
	for _, o := range list {
		if o.Version != "" {
			all = append(all, o.Version)
		}
	}
	best, count := "", 0
	slices.SortStableFunc(all, compareVersions)
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && all[j] == all[i] {
			j++
		}
		if j-i >= count {
			best, count = all[i], j-i
		}
		i = j
	}
	return best
}

// choosePolicy returns the policy summary with the most votes among the entries
// with this descriptor; if there is none, among all entries.
func choosePolicy(list []opinion, descriptor [20]byte) *netdoc.PortPolicy {
	var of, any []*netdoc.PortPolicy
	for _, o := range list {
		if o.Policy == nil {
			continue
		}
		any = append(any, o.Policy)
		if o.Descriptor == descriptor {
			of = append(of, o.Policy)
		}
	}
	if len(of) == 0 {
		of = any
	}
	best, _ := mostFrequent(of, func(a, b *netdoc.PortPolicy) int { return strings.Compare(a.String(), b.String()) })
	return best
}

// setBandwidth chooses the weight: the median of the measurements if there are
// three, else the median of the claimed bandwidths, capped if other relays are
// measured.
func setBandwidth(rs *netdoc.RouterStatus, list []opinion, measuring int, limit uint32) {
	var measured, claimed []uint32
	for _, o := range list {
		if o.HasMeasured {
			measured = append(measured, o.Measured)
		}
		if o.HasBandwidth {
			claimed = append(claimed, o.Bandwidth)
		}
	}
	switch {
	case len(measured) > 2:
		rs.HasBandwidth, rs.Bandwidth = true, lowMedian(measured)
	case len(claimed) > 0:
		rs.HasBandwidth, rs.Unmeasured, rs.Bandwidth = true, true, lowMedian(claimed)
		if measuring > 2 {
			rs.Bandwidth = min(rs.Bandwidth, limit)
		}
	}
}

// popular returns the entry with the most votes. If several have equally many, it
// returns the one published last, and then the one with the smaller descriptor
// digest.
func popular(list []opinion) *netdoc.RouterStatus {
	all := each(list, func(o opinion) *netdoc.RouterStatus { return o.RouterStatus })
	slices.SortStableFunc(all, compareStatus)
	var most *netdoc.RouterStatus
	count := 0
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && compareStatus(all[i], all[j]) == 0 {
			j++
		}
		if n := j - i; n > count || (n == count && all[i].Published.After(most.Published)) {
			most, count = all[i], n
		}
		i = j
	}
	return most
}

// compareStatus orders entries by descriptor. It compares further fields too: if
// an authority lies, entries of one descriptor can differ.
func compareStatus(a, b *netdoc.RouterStatus) int {
	return cmp.Or(
		bytes.Compare(a.Descriptor[:], b.Descriptor[:]),
		cmp.Compare(b.Published.Unix(), a.Published.Unix()),
		strings.Compare(b.Nickname, a.Nickname),
		a.Addr.Compare(b.Addr),
		cmp.Compare(b.ORPort, a.ORPort),
		cmp.Compare(b.DirPort, a.DirPort),
	)
}

// compareORAddr orders addresses as C tor does: ports from high to low.
func compareORAddr(a, b netip.AddrPort) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(b.Port(), a.Port()))
}
