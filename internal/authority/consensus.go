package authority

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// Methods are the consensus methods that Chive computes, in ascending order, the
// same as those of C tor 0.4.9.15.
var Methods = []int{32, 33, 34, 35, 36, 37}

// Methods048 returns those that clients of C tor's 0.4.8 series can use: they need a
// TAP key in each microdescriptor.
func Methods048() []int { return slices.Clone(Methods[:slices.Index(Methods, netdoc.NoTAPMethod)]) }

// The methods from which something changes. What changes in microdescriptors is in
// netdoc (MakeMicrodesc).
const (
	methodNoPublished = 33 // the first whose microdesc flavor omits the times of descriptors
	methodNoPackages  = 34 // the first without "package" lines
)

// Rules are settings that the authorities of a network share, besides their
// votes.
type Rules struct {
	Authorities int // how many there are, voting or not
	// Methods are those that this authority's configuration supports; empty: all of
	// the package's Methods.
	Methods []int
	// FreshSRV says that the shared random value was computed for this round,
	// which requires a greater majority (srv-spec, "including the SRV in the
	// consensus").
	FreshSRV bool
}

// Compute computes both flavors of the consensus of some votes, at most one from each
// authority (dir-spec, "computing a consensus from a set of votes"), without
// signatures. Every authority that has the same votes computes the same bytes,
// C tor's included.
func Compute(votes []*netdoc.Vote, rules Rules) (ns, micro *netdoc.Consensus, err error) {
	if len(votes) <= rules.Authorities/2 {
		return nil, nil, fault.New(fault.Directory, "consensus: votes of %d of %d authorities are no majority", len(votes), rules.Authorities)
	}
	if len(votes) > rules.Authorities {
		return nil, nil, fault.New(fault.Local, "consensus: %d votes of %d authorities", len(votes), rules.Authorities)
	}
	votes = slices.Clone(votes)
	slices.SortFunc(votes, func(a, b *netdoc.Vote) int {
		return bytes.Compare(a.Source.Identity[:], b.Source.Identity[:])
	})
	c := &computation{votes: votes, rules: rules, ns: &netdoc.Consensus{}}
	c.ns.Flavor = netdoc.FlavorNS
	if len(rules.Methods) == 0 {
		c.rules.Methods = Methods
	}
	// The others' method may be one that this authority does not support. Its
	// consensus then differs from theirs; but if the votes share none at all, the
	// authorities of one release still make the same.
	if c.ns.Method = chooseMethod(votes); !slices.Contains(c.rules.Methods, c.ns.Method) {
		c.ns.Method = slices.Max(c.rules.Methods)
	}
	c.preamble()
	c.micro = &netdoc.Consensus{Preamble: c.ns.Preamble}
	c.micro.Flavor = netdoc.FlavorMicrodesc
	if err := c.routers(); err != nil {
		return nil, nil, err
	}
	// Relays that one flavor omits count for its weights, too.
	if w, err := netdoc.ComputeBandwidthWeights(c.ns.Routers, max(1, c.param("bwweightscale", 10000))); err == nil {
		c.ns.BandwidthWeights, c.micro.BandwidthWeights = w, w
	} // else the network cannot be balanced, and the consensus has no such line
	return c.ns, c.micro, nil
}

// computation is the state of computing a consensus.
type computation struct {
	votes     []*netdoc.Vote // by authority
	rules     Rules
	ns, micro *netdoc.Consensus // the same preamble
}

// chooseMethod returns the highest method that more than two thirds of the
// voters know, or 1.
func chooseMethod(votes []*netdoc.Vote) int {
	best := 1
	counts := map[int]int{}
	for _, v := range votes {
		for _, m := range slices.Compact(slices.Sorted(slices.Values(v.Methods))) {
			if counts[m]++; counts[m] > len(votes)*2/3 {
				best = max(best, m)
			}
		}
	}
	return best
}

func (c *computation) preamble() {
	o := c.ns
	o.Lifetime = netdoc.Lifetime{
		ValidAfter: c.medianTime(func(v *netdoc.Vote) time.Time { return v.ValidAfter }),
		FreshUntil: c.medianTime(func(v *netdoc.Vote) time.Time { return v.FreshUntil }),
		ValidUntil: c.medianTime(func(v *netdoc.Vote) time.Time { return v.ValidUntil }),
	}
	o.VoteDelay = lowMedian(each(c.votes, func(v *netdoc.Vote) time.Duration { return v.VoteDelay }))
	o.DistDelay = lowMedian(each(c.votes, func(v *netdoc.Vote) time.Duration { return v.DistDelay }))
	o.ClientVersions = c.versions(func(v *netdoc.Vote) string { return v.ClientVersions })
	o.ServerVersions = c.versions(func(v *netdoc.Vote) string { return v.ServerVersions })
	if o.Method < methodNoPackages {
		o.Packages = c.packages()
	}
	for _, v := range c.votes {
		o.KnownFlags = append(o.KnownFlags, v.KnownFlags...)
	}
	o.KnownFlags = slices.Compact(slices.Sorted(slices.Values(append(o.KnownFlags, "NoEdConsensus"))))
	half, twoThirds := (c.rules.Authorities+1)/2, (c.rules.Authorities*2+2)/3
	o.RecommendedClient = c.protocols(half, func(v *netdoc.Vote) protover.Set { return v.RecommendedClient })
	o.RecommendedRelay = c.protocols(half, func(v *netdoc.Vote) protover.Set { return v.RecommendedRelay })
	o.RequiredClient = c.protocols(twoThirds, func(v *netdoc.Vote) protover.Set { return v.RequiredClient })
	o.RequiredRelay = c.protocols(twoThirds, func(v *netdoc.Vote) protover.Set { return v.RequiredRelay })
	o.Params = c.params()
	agree := int(c.param("AuthDirNumSRVAgreements", int32(c.rules.Authorities*2/3)))
	o.SharedRandPrevious = c.sharedRandom(agree, func(v *netdoc.Vote) *netdoc.SharedRandom { return v.SharedRandPrevious })
	o.SharedRandCurrent = c.sharedRandom(agree, func(v *netdoc.Vote) *netdoc.SharedRandom { return v.SharedRandCurrent })
	for _, v := range c.votes {
		src := v.Source
		src.VoteDigest = v.Digest
		o.Sources = append(o.Sources, src)
	}
}

func (c *computation) medianTime(get func(*netdoc.Vote) time.Time) time.Time {
	unix := lowMedian(each(c.votes, func(v *netdoc.Vote) int64 { return get(v).Unix() }))
	return time.Unix(unix, 0).UTC()
}

// versions returns the versions with more than half of the votes of the
// authorities that recommend any.
func (c *computation) versions(get func(*netdoc.Vote) string) string {
	var all []string
	voters := 0
	for _, v := range c.votes {
		if !v.HasVersions {
			continue
		}
		voters++
		var list []string
		for _, s := range strings.Split(get(v), ",") {
			if s = strings.TrimSpace(s); s != "" {
				list = append(list, s)
			}
		}
		slices.SortStableFunc(list, compareVersions)
		all = append(all, slices.CompactFunc(list, func(a, b string) bool { return compareVersions(a, b) == 0 })...)
	}
	slices.SortStableFunc(all, compareVersions)
	var good []string
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && all[j] == all[i] {
			j++
		}
		if j-i > voters/2 {
			good = append(good, all[i])
		}
		i = j
	}
	return strings.Join(good, ",")
}

func (c *computation) protocols(threshold int, get func(*netdoc.Vote) protover.Set) protover.Set {
	return protover.Vote(each(c.votes, get), threshold)
}

// minParamVotes is how many votes a parameter needs when a majority does not
// vote on it.
const minParamVotes = 3

// params returns the low medians of the parameters that enough authorities
// vote on.
func (c *computation) params() netdoc.Params {
	votes := map[string][]int32{}
	for _, v := range c.votes {
		for _, p := range v.Params {
			votes[p.Name] = append(votes[p.Name], p.Value)
		}
	}
	var out netdoc.Params
	for name, vals := range votes {
		if len(vals) > c.rules.Authorities/2 || len(vals) >= minParamVotes {
			out = append(out, netdoc.Param{Name: name, Value: lowMedian(vals)})
		}
	}
	slices.SortFunc(out, func(a, b netdoc.Param) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// param returns a parameter that the consensus itself depends on.
func (c *computation) param(name string, def int32) int32 {
	if v, ok := c.ns.Params.Lookup(name); ok {
		return v
	}
	return def
}

// sharedRandom returns the value with the most votes, if they are enough.
func (c *computation) sharedRandom(agree int, get func(*netdoc.Vote) *netdoc.SharedRandom) *netdoc.SharedRandom {
	var vals []*netdoc.SharedRandom
	for _, v := range c.votes {
		if r := get(v); v.SharedRandParticipate && r != nil {
			vals = append(vals, r)
		}
	}
	best, n := mostFrequent(vals, func(a, b *netdoc.SharedRandom) int { return bytes.Compare(a.Value[:], b.Value[:]) })
	if n <= c.rules.Authorities/2 || (c.rules.FreshSRV && n < agree) {
		return nil
	}
	return best
}

// each applies f to every element of a list.
func each[T, U any](list []T, f func(T) U) []U {
	out := make([]U, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// lowMedian returns the median, or the lower of two. The list must not be empty.
// lowMedian sorts it.
func lowMedian[T cmp.Ordered](list []T) T {
	slices.Sort(list)
	return list[(len(list)-1)/2]
}

// mostFrequent returns the most frequent value of a list, the greatest if several
// are equally frequent, and its number. It sorts the list.
func mostFrequent[T any](list []T, compare func(a, b T) int) (best T, count int) {
	slices.SortStableFunc(list, compare)
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && compare(list[i], list[j]) == 0 {
			j++
		}
		if j-i >= count {
			best, count = list[i], j-i
		}
		i = j
	}
	return best, count
}

// findMicrodesc returns the digest that a vote's "m" lines give for a method.
func findMicrodesc(rs *netdoc.RouterStatus, method int) (digest [32]byte, ok bool) {
	want := strconv.Itoa(method)
	for _, line := range rs.Microdescs {
		methods, rest, _ := strings.Cut(line, " ")
		if !slices.Contains(strings.Split(methods, ","), want) {
			continue
		}
		for _, w := range strings.Fields(rest) {
			if b64, found := strings.CutPrefix(w, "sha256="); found {
				id, err := ident.ParseEd25519ID(b64) // 32 bytes of base64
				return [32]byte(id), err == nil
			}
		}
		return digest, false
	}
	return digest, false
}
