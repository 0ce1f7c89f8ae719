package metrics

import "testing"

func BenchmarkCounterInc(b *testing.B) {
	var c Counter
	for b.Loop() {
		c.Inc()
	}
}

func BenchmarkCounterAdd(b *testing.B) {
	var c Counter
	for b.Loop() {
		c.Add(514)
	}
}

func BenchmarkCounterValue(b *testing.B) {
	var c Counter
	for b.Loop() {
		_ = c.Value()
	}
}

func BenchmarkGaugeSet(b *testing.B) {
	var g Gauge
	for b.Loop() {
		g.Set(42)
	}
}

func BenchmarkGaugeInc(b *testing.B) {
	var g Gauge
	for b.Loop() {
		g.Inc()
	}
}

func BenchmarkHistogramObserve(b *testing.B) {
	h := NewHistogram()
	for b.Loop() {
		h.Observe(.0123)
	}
}

func BenchmarkHistogramMean(b *testing.B) {
	h := filled()
	for b.Loop() {
		_ = h.Mean()
	}
}

func BenchmarkHistogramPercentile(b *testing.B) {
	h := filled()
	for b.Loop() {
		_ = h.Percentile(95)
	}
}

func filled() *Histogram {
	h := NewHistogram()
	for i := range 1000 {
		h.Observe(float64(i) / 1000)
	}
	return h
}

// BenchmarkMetricsSnapshot takes a client's metrics: a dozen counters, six
// gauges and four histograms.
func BenchmarkMetricsSnapshot(b *testing.B) {
	var r Registry
	for _, l := range "abcdefghijkl" {
		r.Counter("c_"+string(l), "").Inc()
	}
	for _, l := range "abcdef" {
		r.Gauge("g_"+string(l), "").Set(3)
	}
	for _, l := range "abcd" {
		r.Histogram("h_"+string(l), "").Observe(.1)
	}
	var s Snapshot
	b.ReportAllocs()
	for b.Loop() {
		r.Snapshot(&s)
	}
}

func BenchmarkCounterIncParallel(b *testing.B) {
	var c Counter
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Inc()
		}
	})
}

func BenchmarkGaugeSetParallel(b *testing.B) {
	var g Gauge
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			g.Set(42)
		}
	})
}

func BenchmarkHistogramObserveParallel(b *testing.B) {
	h := NewHistogram()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.Observe(.0123)
		}
	})
}
