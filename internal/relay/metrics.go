package relay

import (
	"runtime"
	"sync/atomic"

	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/panics"
)

// Register names the relay's metrics in reg.
func (r *Relay) Register(reg *metrics.Registry) {
	count := func(name, help string, v *atomic.Uint64) {
		reg.CounterFunc("chive_relay_"+name, help, v.Load)
	}
	reg.CounterFunc(panics.Metric, panics.Help, panics.Total)
	s := &r.stats
	count("cells_in_total", "cells received on links", &s.Channel.CellsIn)
	count("cells_out_total", "cells sent on links", &s.Channel.CellsOut)
	count("bytes_in_total", "bytes received on links, without TLS", &s.Channel.BytesIn)
	count("bytes_out_total", "bytes sent on links, without TLS", &s.Channel.BytesOut)
	count("records_out_total", "TLS records sent", &s.Channel.RecordsOut)
	count("onionskins_total", "circuit handshakes done", &s.Circuit.Onionskins)
	count("onionskins_dropped_total", "circuit handshakes refused for load", &s.Circuit.OnionskinsDropped)
	count("onionskin_nanoseconds_total", "time spent on circuit handshakes", &s.Circuit.OnionNanos)
	count("onionskin_queue_nanoseconds_total", "time that circuit handshakes waited", &s.Circuit.QueueNanos)
	count("circuits_cgo_total", "circuits whose cells are encrypted by counter galois onion", &s.Circuit.CGO)
	count("circuits_congestion_total", "circuits with congestion control", &s.Circuit.Congestion)
	count("extends_total", "extends asked for", &s.Circuit.Extends)
	count("extends_failed_total", "extends that failed", &s.Circuit.ExtendsFailed)
	count("streams_opened_total", "exit streams opened", &s.Exit.Opened)
	count("streams_refused_total", "streams refused", &s.Exit.Refused)
	count("streams_failed_total", "exit streams that could not be connected", &s.Exit.Failed)
	count("lookups_total", "names looked up", &s.Exit.Resolves)
	count("lookup_cache_hits_total", "names found in the cache", &s.Exit.CacheHits)
	count("lookup_errors_total", "lookups that failed", &s.Exit.DNSErrors)
	count("connections_refused_total", "connections refused by limits", &s.ConnsRefused)
	count("handshakes_failed_total", "link handshakes that failed", &s.HandshakesFailed)
	count("circuits_refused_total", "circuits refused by limits", &s.CircuitsRefused)
	reg.CounterFunc("chive_relay_evicted_total", "circuits and links closed because they held the most memory", func() uint64 {
		holders, _ := r.memory.Evicted()
		return holders
	})
	reg.GaugeFunc("chive_relay_memory_bytes", "memory that peers make the relay hold", r.memory.Used)
	reg.GaugeFunc("chive_relay_memory_bound_bytes", "how much that may be", r.memory.Bound)
	reg.GaugeFunc("chive_relay_circuits", "open circuits", s.Circuit.Circuits.Load)
	reg.GaugeFunc("chive_relay_streams", "open exit streams", s.Exit.Streams.Load)
	reg.GaugeFunc("chive_relay_channels", "open links", func() int64 { return int64(len(r.channels.Channels())) })
	reg.GaugeFunc("chive_relay_connections", "file descriptors in use by links", r.gate.open.Load)
	reg.GaugeFunc("chive_relay_observed_bandwidth", "bytes a second that the relay has shown to carry", func() int64 { return int64(r.bandwidth.Observed()) })
	reg.GaugeFunc("chive_relay_heap_bytes", "memory of the heap in use", func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse)
	})
}
