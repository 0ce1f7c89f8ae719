// Package metrics counts what happens: counters, gauges and histograms that
// cost atomic additions and no allocation, and a registry that prints them as
// Prometheus text or as a snapshot for JSON.
//
// Why this is no library: Prometheus' own client adds megabytes to the binary.
// The smallest well-kept one, github.com/VictoriaMetrics/metrics (v1.35.1, the
// newest that the module proxy has), adds 0.12 MB to chive, and operators would
// lose by it:
//
//   - the text of the HELP lines, for which it has no place;
//   - the type of counters that other packages keep, which are most of ours:
//     there, only gauges can be functions;
//   - le buckets: its histograms have buckets that Prometheus cannot add up (a
//     later version has le buckets, under a mutex);
//   - /metrics.json, as nothing reads the values of a set.
//
// It would not be faster: an addition to a counter takes 9 to 16 ns there and
// here, on one processor and on two; to a gauge 28 to 36 ns there, 9 to 12 here;
// to a histogram 150 to 240 ns there, 27 to 52 here.
//
// A metric's name may carry constant labels, in Prometheus' own notation:
//
//	chive_circuit_build_seconds{hop="2"}
package metrics

import (
	"slices"
	"sync/atomic"
	"time"
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

// Inc adds one.
func (g *Gauge) Inc() { g.v.Add(1) }

// Dec takes one away.
func (g *Gauge) Dec() { g.v.Add(-1) }

// Value returns the value.
func (g *Gauge) Value() int64 { return g.v.Load() }

// bounds are the upper bounds of a histogram's buckets in seconds, from a tenth
// of a millisecond to two minutes: a stream's round trip on loopback and a
// circuit's building over a slow network both fall inside. One more bucket has
// what takes longer.
var bounds = [...]float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120,
}

// Histogram counts durations in buckets. It keeps no observation, so its size
// is fixed, and a percentile is as exact as its bucket is narrow. The zero value
// is ready; methods may be called from any goroutine.
type Histogram struct {
	counts [len(bounds) + 1]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
}

// Observe records one duration.
func (h *Histogram) Observe(d time.Duration) {
	i, _ := slices.BinarySearch(bounds[:], d.Seconds())
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

func (h *Histogram) count() (n uint64) {
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// seconds returns the sum of the observations.
func (h *Histogram) seconds() float64 { return time.Duration(h.sum.Load()).Seconds() }

// percentile estimates how many seconds p percent (0 to 100) of the observations
// do not exceed: linear inside its bucket, and the highest bound for what is
// above all bounds. It returns 0 before the first observation.
func (h *Histogram) percentile(p float64) float64 {
	n := h.count()
	if n == 0 {
		return 0
	}
	rank := p / 100 * float64(n)
	var below, lower float64
	for i, upper := range bounds {
		in := float64(h.counts[i].Load())
		if in > 0 && below+in >= rank {
			return lower + (upper-lower)*max(rank-below, 0)/in
		}
		below, lower = below+in, upper
	}
	return lower
}
