package wan

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// written is the reference: it writes each value down as often as its weight says, sorts, and interpolates.
func written(points []point, q float64, w weights) (float64, bool) {
	var v []float64
	for _, p := range points {
		for range w[p.seed][p.client] {
			v = append(v, p.value)
		}
	}
	if len(v) == 0 {
		return 0, false
	}
	slices.Sort(v)
	at := q * float64(len(v)-1)
	i := int(at)
	if part := at - float64(i); part > 0 {
		if v[i] == v[i+1] {
			return v[i], true
		}
		return v[i] + part*(v[i+1]-v[i]), true
	}
	return v[i], true
}

// TestQuantile compares the quantile of weighted values with the reference.
func TestQuantile(t *testing.T) {
	luck := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		seeds, clients := 1+luck.IntN(3), 1+luck.IntN(4)
		w := make(weights, seeds)
		for i := range w {
			for range clients {
				w[i] = append(w[i], luck.IntN(4))
			}
		}
		var points []point
		for range luck.IntN(12) {
			p := point{float64(luck.IntN(20)), luck.IntN(seeds), luck.IntN(clients)}
			if luck.IntN(8) == 0 {
				p.value = math.Inf(1)
			}
			points = append(points, p)
		}
		q := []float64{0, .25, .5, .9, 1}[luck.IntN(5)]
		got, ok := newSeries(points).quantile(q, w)
		want, wanted := written(points, q, w)
		if ok != wanted || ok && got != want && !(math.Abs(got-want) <= 1e-9) {
			t.Fatalf("quantile %v of %v by %v: %v, %v; want %v, %v", q, points, w, got, ok, want, wanted)
		}
	}
}

// TestRatio: a side whose requests all take half of the time has the ratio 0.5 whatever is drawn. One that takes as long
// has an interval around 1, and more seeds that agree make it narrower.
func TestRatio(t *testing.T) {
	width := func(seeds int) float64 {
		luck := rand.New(rand.NewPCG(3, 4))
		var base, half, same []point
		for seed := range seeds {
			for client := range 20 {
				for range 3 {
					v := 100 + 50*luck.Float64()
					base = append(base, point{v, seed, client})
					half = append(half, point{v / 2, seed, client})
					same = append(same, point{100 + 50*luck.Float64(), seed, client})
				}
			}
		}
		r := ratio(newSeries(half), newSeries(base), .5, seeds, 20)
		if r == nil || r.Low == nil || r.High == nil || math.Abs(r.Value-.5) > 1e-9 || math.Abs(*r.Low-.5) > 1e-9 || math.Abs(*r.High-.5) > 1e-9 {
			t.Errorf("%d seeds, half the time: %v", seeds, r)
		}
		r = ratio(newSeries(same), newSeries(base), .5, seeds, 20)
		if r == nil || r.Low == nil || r.High == nil || !(*r.Low < 1 && 1 < *r.High) || r.Value < *r.Low || *r.High < r.Value {
			t.Fatalf("%d seeds, the same time: %v", seeds, r)
		}
		return *r.High - *r.Low
	}
	if few, many := width(1), width(12); many >= few {
		t.Errorf("the interval of 12 seeds is %v wide, of one %v", many, few)
	}
}

// TestRatioFailed: requests that failed are worse than all others. If more than half failed there is no median, and where
// some resamples have none the interval is not bounded.
func TestRatioFailed(t *testing.T) {
	side := func(failed int) series {
		var out []point
		for client := range 20 {
			v := 100 + float64(client)
			if client < failed {
				v = math.Inf(1)
			}
			out = append(out, point{v, 0, client})
		}
		return newSeries(out)
	}
	if r := ratio(side(12), side(0), .5, 1, 20); r != nil {
		t.Errorf("12 of 20 failed: %v", r)
	}
	if r := ratio(side(0), side(12), .5, 1, 20); r != nil {
		t.Errorf("12 of 20 of the baseline failed: %v", r)
	}
	if r := ratio(side(9), side(0), .5, 1, 20); r == nil || r.Low == nil || r.High != nil {
		t.Errorf("9 of 20 failed: %v", r)
	}
	if r := ratio(side(1), side(0), .5, 1, 20); r == nil || r.High == nil {
		t.Errorf("1 of 20 failed: %v", r)
	}
	if r := ratio(nil, side(0), .5, 1, 20); r != nil {
		t.Errorf("no sample: %v", r)
	}
}
