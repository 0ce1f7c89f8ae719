package appearance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestComparePaths: samples of one distribution are the same, and those of another one, in which one relay
// of twenty is chosen twice as often, are not.
func TestComparePaths(t *testing.T) {
	draw := func(r *rand.Rand, more int) []path {
		var all []path
		for range 10_000 {
			i := r.IntN(200 + more)
			all = append(all, path{"guard", "middle", fmt.Sprint(min(i/10, 19))})
		}
		return all
	}
	different := 0
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 1))
		exits := func(p path) string { return p[2] }
		same := comparePaths("exits", [2][]path{draw(r, 0), draw(r, 0)}, exits)
		if same.Different() {
			different++
		}
		if same.Freedom != 19 {
			t.Fatalf("%v", &same)
		}
		if other := comparePaths("exits", [2][]path{draw(r, 0), draw(r, 10)}, exits); !other.Different() {
			t.Errorf("seed %d: a relay with twice as much is not seen: %v", seed, &other)
		}
	}
	if different > 1 {
		t.Errorf("%d of 25 pairs of one distribution are different", different)
	}
}

// TestChiSquareLimit compares with a table of the distribution.
func TestChiSquareLimit(t *testing.T) {
	for freedom, want := range map[int]float64{1: 10.83, 7: 24.32, 19: 43.82, 100: 149.45} {
		if got := chiSquareLimit(freedom); math.Abs(got/want-1) > 0.04 {
			t.Errorf("%d degrees of freedom: %.2f, not %.2f", freedom, got, want)
		}
	}
}
