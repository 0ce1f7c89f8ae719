package path

import (
	"math"
	"testing"

	"github.com/chivenet/chive/internal/netdir"
)

// chi compares how often relays were chosen with their weights. It sums small
// expectations into one, and returns the statistic over its threshold for a
// chance of one in 10,000 (Wilson and Hilferty's approximation).
func chi(d *netdir.Directory, pos netdir.Position, count map[netdir.Relay]int, n int, ok func(netdir.Relay) bool) (over float64, classes int) {
	var sum float64
	for r := range d.All() {
		if ok(r) {
			sum += float64(d.Weight(r, pos))
		}
	}
	var stat, restE, restO float64
	for r := range d.All() {
		if !ok(r) {
			continue
		}
		e, o := float64(d.Weight(r, pos))/sum*float64(n), float64(count[r])
		if e < 10 {
			restE, restO = restE+e, restO+o
			continue
		}
		stat += (o - e) * (o - e) / e
		classes++
	}
	if restE > 5 {
		stat += (restO - restE) * (restO - restE) / restE
		classes++
	}
	k := float64(classes - 1)
	z := 1 - 2/(9*k) + 3.719*math.Sqrt(2/(9*k))
	return stat / (k * z * z * z), classes
}

func TestFrequenciesFollowTheWeights(t *testing.T) {
	d := big(t)
	// Nothing that a hop does to another, so that the expectation is known.
	c := &Config{SameFamily: true, SameSubnet: true}
	const n = 60000
	exits, middles := map[netdir.Relay]int{}, map[netdir.Relay]int{}
	r := rng(3)
	for range n {
		p := choose(t, c, d, nil, r, Spec{Hops: 2, Dests: web})
		exits[p.Exit().Relay]++
		p = choose(t, c, d, nil, r, Spec{Hops: 2})
		middles[p.Exit().Relay]++
	}
	fast := func(r netdir.Relay) bool { return r.Has(netdir.FlagRunning | netdir.FlagValid | netdir.FlagFast) }
	exitOK := func(r netdir.Relay) bool {
		return fast(r) && r.Flags()&(netdir.FlagBadExit|netdir.FlagMiddleOnly) == 0 && Allows(r, web...)
	}
	for what, v := range map[string]struct {
		pos   netdir.Position
		count map[netdir.Relay]int
		ok    func(netdir.Relay) bool
	}{"exit": {netdir.PosExit, exits, exitOK}, "middle": {netdir.PosMiddle, middles, fast}} {
		over, classes := chi(d, v.pos, v.count, n, v.ok)
		if classes < 50 || over > 1 {
			t.Errorf("%s: chi square is %.2f of its threshold, over %d relays", what, over, classes)
		}
		// The test can fail: uniform choice would not pass.
		flat := map[netdir.Relay]int{}
		var all []netdir.Relay
		for r := range d.All() {
			if v.ok(r) {
				all = append(all, r)
			}
		}
		for range n {
			flat[all[r.IntN(len(all))]]++
		}
		if over, _ := chi(d, v.pos, flat, n, v.ok); over < 2 {
			t.Errorf("%s: the test does not see a uniform choice (%.2f)", what, over)
		}
	}
}
