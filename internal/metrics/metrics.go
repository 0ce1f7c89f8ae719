// Package metrics counts what happens: counters, gauges and histograms that
// cost an atomic addition and no allocation, gathered in a registry that
// prints them as Prometheus text or as a snapshot for JSON.
//
// Prometheus' own client would add megabytes to the binary, and the small
// libraries either lack its le buckets or start goroutines; what is needed
// here is small enough to be plain.
//
// A metric's name may carry constant labels, in Prometheus' own notation:
//
//	chive_circuit_build_seconds{hop="2"}
package metrics

import (
	"math"
	"slices"
	"sync/atomic"
)

// Counter only grows. The zero value is ready; methods may be called from
// any goroutine.
type Counter struct{ v atomic.Uint64 }

// Inc adds one.
func (c *Counter) Inc() { c.v.Add(1) }

// Add adds n.
func (c *Counter) Add(n uint64) { c.v.Add(n) }

// Value returns the count so far.
func (c *Counter) Value() uint64 { return c.v.Load() }

// Gauge goes up and down. The zero value is ready; methods may be called from
// any goroutine.
type Gauge struct{ v atomic.Int64 }

// Set replaces the value.
func (g *Gauge) Set(n int64) { g.v.Store(n) }

// Add adds n, which may be negative.
func (g *Gauge) Add(n int64) { g.v.Add(n) }

// Inc adds one.
func (g *Gauge) Inc() { g.v.Add(1) }

// Dec takes one away.
func (g *Gauge) Dec() { g.v.Add(-1) }

// Value returns the value.
func (g *Gauge) Value() int64 { return g.v.Load() }

// Seconds are histogram bounds for durations in seconds, from a tenth of a
// millisecond to two minutes: a stream's round trip on loopback and a circuit
// build over a slow network both fall inside.
var Seconds = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120,
}

// Histogram counts observations in buckets. It keeps no observation, so its
// size is fixed; a percentile is therefore as exact as its bucket is narrow.
// Make one with NewHistogram; methods may be called from any goroutine.
type Histogram struct {
	bounds []float64 // ascending upper bounds, each included in its bucket
	counts []atomic.Uint64
	sum    atomic.Uint64 // bits of a float64
}

// NewHistogram returns a histogram with the given upper bounds, which must
// ascend, and one more bucket for what lies above them. Without bounds it
// uses Seconds. It panics when the bounds do not ascend.
func NewHistogram(bounds ...float64) *Histogram {
	if len(bounds) == 0 {
		bounds = Seconds
	}
	for i, b := range bounds {
		if math.IsNaN(b) || math.IsInf(b, 0) || i > 0 && b <= bounds[i-1] {
			panic("metrics: histogram bounds must be finite and ascend")
		}
	}
	return &Histogram{bounds: slices.Clone(bounds), counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe records one value. NaN is not a value, and is ignored.
func (h *Histogram) Observe(v float64) {
	if math.IsNaN(v) {
		return
	}
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i].Add(1)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

// Count returns the number of observations.
func (h *Histogram) Count() uint64 {
	var n uint64
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// Sum returns the sum of the observations.
func (h *Histogram) Sum() float64 { return math.Float64frombits(h.sum.Load()) }

// Mean returns the mean, or 0 before the first observation.
func (h *Histogram) Mean() float64 {
	if n := h.Count(); n > 0 {
		return h.Sum() / float64(n)
	}
	return 0
}

// Percentile returns an estimate of the value that p percent (0 to 100) of
// the observations do not exceed: linear inside its bucket, and the highest
// bound for what lies above all bounds. It returns 0 before the first
// observation.
func (h *Histogram) Percentile(p float64) float64 {
	n := h.Count()
	if n == 0 {
		return 0
	}
	rank := min(max(p, 0), 100) / 100 * float64(n)
	var below float64
	for i := range h.bounds {
		in := float64(h.counts[i].Load())
		if in > 0 && below+in >= rank {
			lower := 0.0
			if i > 0 {
				lower = h.bounds[i-1]
			}
			return lower + (h.bounds[i]-lower)*max(rank-below, 0)/in
		}
		below += in
	}
	return h.bounds[len(h.bounds)-1]
}
