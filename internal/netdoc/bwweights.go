package netdoc

import (
	"math/bits"

	"github.com/chivenet/chive/internal/fault"
)

// bandwidths holds the sums that bandwidth weights balance: G of Guards, M of
// relays that are neither Guard nor Exit, E of Exits, D of relays that are both,
// and T of all relays.
type bandwidths struct{ G, M, E, D, T int64 }

// bwWeights holds the seven weights from which the others follow. The names are
// those of the specification.
type bwWeights struct{ gg, gd, mg, me, md, ee, ed int64 }

// ComputeBandwidthWeights computes the "bandwidth-weights" line of a consensus
// with these relays (dir-spec 3.8.3, consensus method 31 and later). It uses
// integers, so that all authorities get the same result. scale is the parameter
// bwweightscale, 10000 by default. It returns an error if the network cannot be
// balanced; the consensus then has no such line.
func ComputeBandwidthWeights(routers []RouterStatus, scale int32) (Params, error) {
	b := bandwidths{1, 1, 1, 1, 4} // so that no class of a small network is empty
	for i := range routers {
		r := &routers[i]
		v := int64(r.Bandwidth)
		b.T += v
		exit, guard := r.Flags.Has(FlagExit) && !r.Flags.Has(FlagBadExit), r.Flags.Has(FlagGuard)
		switch {
		case exit && guard:
			b.D += v
		case exit:
			b.E += v
		case guard:
			b.G += v
		default:
			b.M += v
		}
	}
	if bits.Len64(uint64(b.T))+bits.Len32(uint32(scale)) > 58 { // room for the sums of products
		return nil, fault.New(fault.Resource, "bandwidth weights: a total bandwidth of %d is too large", b.T)
	}
	w, ok := b.solve(int64(scale))
	if !ok {
		return nil, fault.New(fault.Directory, "bandwidth weights: no solution for G=%d M=%d E=%d D=%d", b.G, b.M, b.E, b.D)
	}
	s := int64(scale)
	var out Params
	for _, p := range []struct {
		name string
		v    int64
	}{
		{"Wbd", w.md}, {"Wbe", w.me}, {"Wbg", w.mg}, {"Wbm", s}, {"Wdb", s}, {"Web", s}, {"Wed", w.ed}, {"Wee", w.ee},
		{"Weg", w.ed}, {"Wem", w.ee}, {"Wgb", s}, {"Wgd", w.gd}, {"Wgg", w.gg}, {"Wgm", w.gg}, {"Wmb", s}, {"Wmd", w.md},
		{"Wme", w.me}, {"Wmg", w.mg}, {"Wmm", s},
	} {
		out = append(out, Param{p.name, int32(p.v)})
	}
	return out, nil
}

// solve computes the weights by the specification's cases.
func (b bandwidths) solve(s int64) (bwWeights, bool) {
	scarceG, scarceE := 3*b.G < b.T, 3*b.E < b.T
	switch {
	case !scarceG && !scarceE: // case 1
		w := bwWeights{gd: s / 3, ed: s / 3, md: s / 3, ee: s * (b.E + b.G + b.M) / (3 * b.E), mg: s * (2*b.G - b.E - b.M) / (3 * b.G)}
		w.me, w.gg = s-w.ee, s-w.mg
		return w, b.check(w, s) == balanced
	case scarceG && scarceE:
		return b.bothScarce(s)
	}
	return b.oneScarce(s)
}

// bothScarce is case 2.
func (b bandwidths) bothScarce(s int64) (bwWeights, bool) {
	w := bwWeights{gg: s, ee: s}
	if min(b.E, b.G)+b.D < max(b.E, b.G) { // 2a: all of D goes to the scarcer class
		if b.E < b.G {
			w.ed = s
		} else {
			w.gd = s
		}
		return w, true
	}
	w.ee, w.ed, w.me = s*(b.E-b.G+b.M)/b.E, s*(b.D-2*b.E+4*b.G-2*b.M)/(3*b.D), s*(b.G-b.M)/b.E
	w.md, w.gd = (s-w.ed)/2, (s-w.ed)/2
	if b.check(w, s) == balanced {
		return w, true
	}
	w = bwWeights{gg: s, ee: s, ed: s * (b.D - 2*b.E + b.G + b.M) / (3 * b.D), md: s * (b.D - 2*b.M + b.G + b.E) / (3 * b.D)}
	w.md = max(w.md, 0) // negative if more than a third is in the middle
	w.gd = s - w.ed - w.md
	v := b.check(w, s)
	return w, v == balanced || v == middleUnbalanced
}

// oneScarce is case 3.
func (b bandwidths) oneScarce(s int64) (w bwWeights, ok bool) {
	guardScarce := b.G < b.E
	switch a := 3*(min(b.E, b.G)+b.D) < b.T; {
	case a && guardScarce:
		w = bwWeights{gg: s, gd: s, me: s * max(b.E-b.M, 0) / (2 * b.E)}
		w.ee = s - w.me
		return w, true
	case a:
		w = bwWeights{ee: s, ed: s, mg: s * max(b.G-b.M, 0) / (2 * b.G)}
		w.gg = s - w.mg
		return w, true
	case guardScarce:
		w = bwWeights{gg: s, gd: s * (b.D - 2*b.G + b.E + b.M) / (3 * b.D), ee: s * (b.E + b.M) / (2 * b.E)}
		w.me, w.md, w.ed = s-w.ee, (s-w.gd)/2, (s-w.gd)/2
	default:
		w = bwWeights{ee: s, ed: s * (b.D - 2*b.E + b.G + b.M) / (3 * b.D), gg: s * (b.G + b.M) / (2 * b.G)}
		w.mg, w.md, w.gd = s-w.gg, (s-w.ed)/2, (s-w.ed)/2
	}
	return w, b.check(w, s) == balanced
}

// The results of check.
type balance uint8

const (
	balanced         balance = iota
	middleUnbalanced         // only the middle position's share is off
	unbalanced
)

// check tests whether weights solve the equations, within C tor's margin for
// rounding.
func (b bandwidths) check(w bwWeights, s int64) balance {
	const margin = 10
	near := func(x, y, m int64) bool { return x-y <= m && y-x <= m }
	if !near(w.ed+w.md+w.gd, s, margin) || !near(w.mg+w.gg, s, margin) || !near(w.me+w.ee, s, margin) {
		return unbalanced
	}
	for _, v := range []int64{w.gg, w.gd, w.mg, w.me, w.md, w.ed, w.ee} {
		if v < 0 || v > s {
			return unbalanced
		}
	}
	guard := w.gg*b.G + w.gd*b.D
	if !near(guard, w.ee*b.E+w.ed*b.D, margin*b.T/3) {
		return unbalanced
	}
	if !near(guard, b.M*s+w.md*b.D+w.me*b.E+w.mg*b.G, margin*b.T/3) {
		return middleUnbalanced
	}
	return balanced
}
