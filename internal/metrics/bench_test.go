package metrics

import (
	"testing"
	"time"
)

// parallel runs f on every processor at once: go test -bench . -cpu 1,2.
func parallel(b *testing.B, f func()) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			f()
		}
	})
}

func BenchmarkCounterInc(b *testing.B) {
	var c Counter
	parallel(b, c.Inc)
}

func BenchmarkGaugeInc(b *testing.B) {
	var g Gauge
	parallel(b, g.Inc)
}

func BenchmarkHistogramObserve(b *testing.B) {
	var h Histogram
	parallel(b, func() { h.Observe(12300 * time.Microsecond) })
}

// BenchmarkMetricsSnapshot takes a client's metrics: a dozen counters, six
// gauges and four histograms.
func BenchmarkMetricsSnapshot(b *testing.B) {
	var r Registry
	for _, l := range "abcdefghijkl" {
		r.Counter("c_"+string(l), "").Inc()
	}
	for _, l := range "abcdef" {
		r.Gauge("g_"+string(l), "").Inc()
	}
	for _, l := range "abcd" {
		r.Histogram("h_"+string(l), "").Observe(time.Second / 10)
	}
	var s Snapshot
	b.ReportAllocs()
	for b.Loop() {
		r.Snapshot(&s)
	}
}
