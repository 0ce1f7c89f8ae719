package netdir

import "github.com/chivenet/chive/internal/netdoc"

// Position is a relay's position in a circuit, for bandwidth weights (dir-spec,
// "bandwidth-weights").
type Position uint8

// The positions.
const (
	PosGuard  Position = iota
	PosMiddle          // also for introduction and rendezvous points
	PosExit
	PosDir // a directory cache for one-hop requests
	positions
)

// class is a class of relays with equal weights: Guard or not, Exit or not, and
// whether the relay also serves directory requests.
type class uint8

const (
	classGuard class = 1 << iota
	classExit
	classDir
	classes
)

func (r *relay) class() (c class) {
	if r.flags.Has(FlagGuard) {
		c |= classGuard
	}
	if r.flags.Has(FlagExit) && !r.flags.Has(FlagBadExit) {
		c |= classExit
	}
	if r.flags.Has(FlagV2Dir) {
		c |= classDir
	}
	return c
}

// weightNames are the bandwidth-weights of a position, for relays that are
// neither Guard nor Exit, Guard, Exit, and both.
var weightNames = [positions][4]string{
	PosGuard:  {"Wgm", "Wgg", "", "Wgd"}, // C tor never uses a relay that is only an exit as a guard
	PosMiddle: {"Wmm", "Wmg", "Wme", "Wmd"},
	PosExit:   {"Wem", "Weg", "Wee", "Wed"},
	PosDir:    {"Wbm", "Wbg", "Wbe", "Wbd"},
}

// dirNames are the factors for relays that also serve directory requests.
var dirNames = [4]string{"Wmb", "Wgb", "Web", "Wdb"}

// factorUnit is a factor of one, the largest factor. With it, the sum of 32-bit
// bandwidths times factors over all relays of a consensus is less than 2^64.
const factorUnit = 1 << 16

// positionFactors computes each class's factor for each position, in units of
// 1/factorUnit, from weights of the given scale. If the consensus has no weights
// for a position, all its factors are one.
func positionFactors(w netdoc.Params, scale int64) (out [positions][classes]int64) {
	for pos := range positions {
		plain, ok := lookupAll(w, weightNames[pos], scale)
		dir := [4]int64{scale, scale, scale, scale}
		if ok && pos != PosDir {
			dir, ok = lookupAll(w, dirNames, scale)
		}
		for c := range classes {
			out[pos][c] = factorUnit
			if !ok {
				continue
			}
			out[pos][c] = plain[c&3] * factorUnit / scale
			if c&classDir != 0 {
				out[pos][c] = out[pos][c] * dir[c&3] / scale
			}
		}
	}
	return out
}

func lookupAll(w netdoc.Params, names [4]string, scale int64) (v [4]int64, ok bool) {
	for i, n := range names {
		if n == "" {
			continue
		}
		x, ok := w.Lookup(n)
		if !ok || x < 0 {
			return v, false
		}
		v[i] = min(int64(x), scale)
	}
	return v, true
}

// Weight returns the relay's share of the choices for a position, in an arbitrary
// unit. A relay of weight zero is chosen only if all others have weight zero, too.
func (d *Directory) Weight(r Relay, pos Position) uint64 { return d.weight(r.i, pos) }

func (d *Directory) weight(i int, pos Position) uint64 {
	r := &d.relays[i]
	bw := uint64(r.bandwidth)
	if !r.hasBandwidth {
		bw = 30 // kilobytes per second: C tor's value if a relay has no "w" line
	}
	return bw * uint64(d.factors[pos][r.class()])
}

// Rand is a source of uniformly distributed numbers, such as *rand.Rand of
// math/rand/v2.
type Rand interface{ Uint64N(n uint64) uint64 }

// tries bounds the attempts of the fast way to pick, which can fail, before the
// slow way.
const tries = 32

// Pick chooses a relay that ok accepts, with a probability in proportion to its
// weight at the position. It returns false if ok accepts none. If all relays that
// ok accepts have weight zero, each has the same chance. It allocates nothing after
// the position's first call.
func (d *Directory) Pick(rng Rand, pos Position, ok func(Relay) bool) (Relay, bool) {
	cum := d.cumulative(pos)
	if n := len(cum); n > 0 && cum[n-1] > 0 {
		for range tries { // rejection does not change the proportions of the accepted relays
			x := rng.Uint64N(cum[n-1])
			if r := (Relay{d, search(cum, x)}); ok(r) {
				return r, true
			}
		}
	}
	return d.pickScan(rng, pos, ok)
}

// search returns the first index whose running sum is above x.
func search(cum []uint64, x uint64) int {
	lo, hi := 0, len(cum)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if cum[m] > x {
			hi = m
		} else {
			lo = m + 1
		}
	}
	return lo
}

// pickScan looks at every relay once. Each accepted relay replaces the choice so
// far with a probability of its weight divided by the sum of weights so far.
func (d *Directory) pickScan(rng Rand, pos Position, ok func(Relay) bool) (best Relay, found bool) {
	var sum uint64
	var weightless uint64
	for i := range d.relays {
		r := Relay{d, i}
		if !ok(r) {
			continue
		}
		w := d.weight(i, pos)
		switch {
		case w > 0:
			if sum += w; rng.Uint64N(sum) < w {
				best = r
			}
		case sum == 0:
			if weightless++; rng.Uint64N(weightless) == 0 {
				best = r
			}
		}
		found = true
	}
	return best, found
}

func (d *Directory) cumulative(pos Position) []uint64 {
	d.cumOnce[pos].Do(func() {
		cum := make([]uint64, len(d.relays))
		var sum uint64
		for i := range cum {
			sum += d.weight(i, pos)
			cum[i] = sum
		}
		d.cum[pos] = cum
	})
	return d.cum[pos]
}
