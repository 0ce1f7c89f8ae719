package wan

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// point is a value with whose it is. One that failed is infinite: it is worse than all others.
type point struct {
	value  float64
	seed   int // index of the seed
	client int
}

// series are points in order of their values.
type series []point

func newSeries(points []point) series {
	s := slices.Clone(points)
	slices.SortFunc(s, func(a, b point) int {
		return cmp.Compare(a.value, b.value)
	})
	return s
}

// weights say how often each client of each seed is in a resample: weights[seed][client].
type weights [][]int

// quantile is that of the values, each as often as its weight says, interpolated between neighbours; false if there is
// none.
func (s series) quantile(q float64, w weights) (float64, bool) {
	n := 0
	for _, p := range s {
		n += w[p.seed][p.client]
	}
	if n == 0 {
		return 0, false
	}
	at := q * float64(n-1)
	i, part := int(at), at-math.Floor(at)
	low, seen := 0.0, 0
	for _, p := range s {
		k := w[p.seed][p.client]
		if k == 0 {
			continue
		}
		if seen <= i && i < seen+k {
			if low = p.value; part == 0 || i+1 < seen+k || math.IsInf(low, 0) {
				return low, true
			}
		} else if i+1 < seen+k {
			return low + part*(p.value-low), true
		}
		seen += k
	}
	return low, true // i is the last
}

// resamples is how many there are for an interval.
const resamples = 1000

// Ratio is a value of one side by that of the baseline, with an interval of 95 %. Clients in one network share its links,
// so neither requests nor clients alone are independent of each other: a resample draws seeds, then clients of each, and
// takes the same of both sides. With one seed it tells nothing of how seeds differ.
type Ratio struct {
	Value float64  `json:"value"`
	Low   *float64 `json:"low,omitempty"`  // nothing: there are too few samples for an interval
	High  *float64 `json:"high,omitempty"` // nothing: not bounded, as too many requests failed
}

// ratio compares a quantile of two sides; nil if one of them has none.
func ratio(a, base series, q float64, seeds, clients int) *Ratio {
	all := make(weights, seeds)
	for i := range all {
		all[i] = slices.Repeat([]int{1}, clients)
	}
	value, ok := divide(a, base, q, all)
	if !ok || math.IsInf(value, 0) {
		return nil
	}
	out := &Ratio{Value: value}
	luck := rand.New(rand.NewPCG(2026, 29)) // the same samples give the same report
	var got []float64
	for range resamples {
		for _, w := range all {
			clear(w)
		}
		for range seeds {
			w := all[luck.IntN(seeds)]
			for range clients {
				w[luck.IntN(clients)]++
			}
		}
		if v, ok := divide(a, base, q, all); ok {
			got = append(got, v)
		}
	}
	if len(got) < resamples*95/100 {
		return out
	}
	slices.Sort(got)
	low, high := got[len(got)*25/1000], got[len(got)-1-len(got)*25/1000]
	if out.Low = &low; !math.IsInf(high, 0) {
		out.High = &high
	}
	return out
}

func divide(a, base series, q float64, w weights) (float64, bool) {
	x, ok1 := a.quantile(q, w)
	y, ok2 := base.quantile(q, w)
	if !ok1 || !ok2 || math.IsInf(y, 0) || y == 0 {
		return 0, false
	}
	return x / y, true
}
