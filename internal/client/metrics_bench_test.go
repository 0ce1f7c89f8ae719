package client

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/metrics"
)

// BenchmarkRecordCircuitBuild is what a completed circuit of three hops costs
// the metrics.
func BenchmarkRecordCircuitBuild(b *testing.B) {
	var reg metrics.Registry
	m := newMetrics(&reg, &Client{})
	took := []time.Duration{time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond}
	protection := make([]HopProtection, 3)
	b.ReportAllocs()
	for b.Loop() {
		m.built(took, protection)
	}
}

// BenchmarkRecordConnection is what a stream that was opened costs the metrics.
func BenchmarkRecordConnection(b *testing.B) {
	var reg metrics.Registry
	m := newMetrics(&reg, &Client{})
	b.ReportAllocs()
	for b.Loop() {
		m.connect.Observe(time.Millisecond)
	}
}
