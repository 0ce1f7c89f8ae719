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
	count("padding_cells_total", "cells that circuit padding machines sent to clients", &s.Circuit.Padding)
	count("introductions_total", "introductions of clients that were sent on to onion services", &s.Circuit.Introductions)
	count("introductions_refused_total", "introductions that were refused", &s.Circuit.IntroductionsRefused)
	count("rendezvous_total", "pairs of circuits that were joined for onion services", &s.Circuit.Rendezvous)
	gauge := func(name, help string, v func() int) {
		reg.GaugeFunc("chive_relay_"+name, help, func() int64 { return int64(v()) })
	}
	gauge("introduction_points", "circuits of onion services to this relay as an introduction point", func() int { n, _ := r.server.HSPoints(); return n })
	gauge("rendezvous_waiting", "circuits of clients that wait for an onion service", func() int { _, n := r.server.HSPoints(); return n })
	if r.cache != nil {
		served := r.cache.server.Stats()
		count("directory_streams_over_rate_total", "directory streams that a circuit began faster than the consensus allows: each was refused, or closed its circuit", &served.Quick)
		count("directory_streams_repeated_total", "second directory streams of a relay's circuit, which were refused because the consensus allows one", &served.Again)
		d := r.cache.onions
		h := d.Stats()
		count("onion_descriptors_stored_total", "descriptors of onion services that were taken", &h.Stored)
		count("onion_descriptors_refused_total", "descriptors of onion services that were refused", &h.Refused)
		count("onion_descriptors_evicted_total", "descriptors of onion services that made room for others", &h.Evicted)
		count("onion_descriptors_fetched_total", "requests for a descriptor of an onion service that was there", &h.Fetched)
		count("onion_descriptors_missed_total", "requests for a descriptor of an onion service that was not there", &h.Missed)
		count("onion_descriptor_requests_repeated_total", "requests about a descriptor of an onion service on a circuit that had one before; they end the circuit", &h.Repeated)
		gauge("onion_descriptors", "descriptors of onion services that are kept", func() int { n, _ := d.Held(); return n })
		reg.GaugeFunc("chive_relay_onion_descriptor_bytes", "their size", func() int64 { _, n := d.Held(); return n })
	}
	reg.CounterFunc("chive_relay_evicted_total", "circuits and links closed to make room in memory", func() uint64 {
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
