package bench

import (
	"math"
	"slices"
	"time"
)

// Dist is what a number of measurements of the same thing came to.
type Dist struct {
	N      int     `json:"n"`
	Min    float64 `json:"min"`
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// distOf summarizes values. A percentile is one of the values: the least that so many
// of them do not exceed.
func distOf(values []float64) Dist {
	if len(values) == 0 {
		return Dist{}
	}
	sorted := slices.Sorted(slices.Values(values))
	at := func(p float64) float64 {
		return sorted[max(int(math.Ceil(p*float64(len(sorted))))-1, 0)]
	}
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	return Dist{N: len(sorted), Min: sorted[0], Mean: sum / float64(len(sorted)), Median: at(0.5), P95: at(0.95), P99: at(0.99), Max: sorted[len(sorted)-1]}
}

// ms returns a duration in milliseconds.
func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// rate returns megabytes per second.
func rate(bytes int64, took time.Duration) float64 {
	return float64(bytes) / 1e6 / max(took.Seconds(), 1e-9)
}
