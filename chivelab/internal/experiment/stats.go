package experiment

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Interval is where a value is with 95 % confidence.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Summary describes a measure: milliseconds, or Mbit/s of goodput. Intervals come from 1000 resamples (Efron's
// percentile bootstrap), whose luck is fixed: the same samples give the same report.
type Summary struct {
	N        int      `json:"n"`
	Mean     float64  `json:"mean"`
	MeanCI   Interval `json:"mean_ci95"`
	StdDev   float64  `json:"stddev"` // divided by n-1
	Median   float64  `json:"median"`
	MedianCI Interval `json:"median_ci95"`
	Min      float64  `json:"min"`
	P25      float64  `json:"p25"`
	P75      float64  `json:"p75"`
	P95      float64  `json:"p95"`
	Max      float64  `json:"max"`
}

const resamples = 1000

// luck is that of all resamples.
func luck() *rand.Rand { return rand.New(rand.NewPCG(2026, 95)) }

// Summarize describes values. There must be one at least.
func Summarize(values []float64) Summary {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	s := Summary{N: n, Mean: mean(v), Median: quantile(v, .5), Min: v[0], P25: quantile(v, .25), P75: quantile(v, .75), P95: quantile(v, .95), Max: v[n-1]}
	for _, x := range v {
		s.StdDev += (x - s.Mean) * (x - s.Mean)
	}
	if n > 1 {
		s.StdDev = math.Sqrt(s.StdDev / float64(n-1))
	}
	r := luck()
	means, medians := make([]float64, resamples), make([]float64, resamples)
	again := make([]float64, n)
	for i := range means {
		resample(r, v, again)
		means[i], medians[i] = mean(again), quantile(again, .5)
	}
	s.MeanCI, s.MedianCI = interval(means), interval(medians)
	return s
}

// resample draws as many values, which come sorted, as v is.
func resample(r *rand.Rand, v, out []float64) {
	for i := range out {
		out[i] = v[r.IntN(len(v))]
	}
	slices.Sort(out)
}

func interval(v []float64) Interval {
	slices.Sort(v)
	return Interval{quantile(v, .025), quantile(v, .975)}
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// quantile interpolates between sorted values.
func quantile(v []float64, q float64) float64 {
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// medianRatio is the ratio of two medians with its interval.
func medianRatio(a, b []float64) (ratio float64, ci Interval) {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	r := luck()
	ratios := make([]float64, resamples)
	x, y := make([]float64, len(a)), make([]float64, len(b))
	for i := range ratios {
		resample(r, a, x)
		resample(r, b, y)
		ratios[i] = quantile(y, .5) / quantile(x, .5)
	}
	return quantile(b, .5) / quantile(a, .5), interval(ratios)
}

// rankSum is the two-sided p-value of Mann's and Whitney's test that two sets of values are of one distribution: the
// normal approximation, with the corrections for ties and for continuity. Below some ten values it is too rough to use.
func rankSum(a, b []float64) float64 {
	type ranked struct {
		v   float64
		ofA bool
	}
	var all []ranked
	for _, v := range a {
		all = append(all, ranked{v, true})
	}
	for _, v := range b {
		all = append(all, ranked{v, false})
	}
	slices.SortFunc(all, func(x, y ranked) int {
		switch {
		case x.v < y.v:
			return -1
		case x.v > y.v:
			return 1
		}
		return 0
	})
	na, nb, n := float64(len(a)), float64(len(b)), float64(len(all))
	sum, ties := 0.0, 0.0
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].v == all[i].v {
			j++
		}
		rank, t := float64(i+j+1)/2, float64(j-i) // the mean of the ranks i+1 to j
		for ; i < j; i++ {
			if all[i].ofA {
				sum += rank
			}
		}
		ties += t*t*t - t
	}
	u := sum - na*(na+1)/2
	variance := na * nb / 12 * (n + 1 - ties/(n*(n-1)))
	if !(variance > 0) {
		return 1 // all are the same
	}
	z := max(0, math.Abs(u-na*nb/2)-.5) / math.Sqrt(variance)
	return math.Erfc(z / math.Sqrt2)
}

// holm corrects p-values for their number (Holm's method), in place.
func holm(p []float64) {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		switch {
		case p[i] < p[j]:
			return -1
		case p[i] > p[j]:
			return 1
		}
		return i - j
	})
	least := 0.0
	for k, i := range order {
		least = max(least, min(1, p[i]*float64(len(p)-k)))
		p[i] = least
	}
}
