package netdoc

import (
	"math/rand/v2"
	"testing"
)

// The weights in consensuses of C tor are what its relays' bandwidths give.
func TestBandwidthWeightsOfCTor(t *testing.T) {
	for _, name := range []string{"ctor/consensus-microdesc", "ctor/consensus-microdesc-old", "ctor/consensus-ns", "arti/chutney/cached-consensus"} {
		c, err := ParseConsensus(read(t, name), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ComputeBandwidthWeights(c.Routers, 10000)
		if err != nil || got.String() != c.BandwidthWeights.String() {
			t.Errorf("%s: %v\n got %v\nwant %v", name, err, got, c.BandwidthWeights)
		}
	}
}

// In every case of the specification the weights solve its equations: the
// shares of a relay sum to one, and no weight is out of range.
func TestBandwidthWeightsProperty(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	solved := 0
	for range 20000 {
		var rs []RouterStatus
		for _, f := range []Flags{0, FlagGuard, FlagExit, FlagGuard | FlagExit} {
			rs = append(rs, RouterStatus{Flags: f, Bandwidth: 1000 + rng.Uint32N(1<<(11+rng.Uint32N(15)))})
		}
		p, err := ComputeBandwidthWeights(rs, 10000)
		if err != nil {
			continue
		}
		solved++
		w := func(name string) int32 {
			v, ok := p.Lookup(name)
			if !ok || v < 0 || v > 10000 {
				t.Fatalf("%s=%d of %v", name, v, p)
			}
			return v
		}
		for _, sum := range []int32{w("Wgg") + w("Wmg"), w("Wee") + w("Wme"), w("Wed") + w("Wmd") + w("Wgd")} {
			if sum < 9990 || sum > 10010 {
				t.Fatalf("a sum of %d in %v for %v", sum, p, rs)
			}
		}
	}
	if solved < 15000 {
		t.Errorf("%d of 20000 were solved", solved)
	}
}

func TestBandwidthWeightsOverflow(t *testing.T) {
	rs := make([]RouterStatus, 60000)
	for i := range rs {
		rs[i].Bandwidth = 1<<32 - 1
	}
	if _, err := ComputeBandwidthWeights(rs, 1<<31-1); err == nil {
		t.Error("sums that do not fit were accepted")
	}
}
