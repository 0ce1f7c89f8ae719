package relay

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/panics"
)

// Register names the relay's metrics in reg.
func (r *Relay) Register(reg *metrics.Registry) {
	count := func(name, help string, v *atomic.Uint64) {
		reg.CounterFunc("chive_relay_"+name, help, v.Load)
	}
	seconds := func(name, help string, nanoseconds *atomic.Uint64) {
		reg.SecondsFunc("chive_relay_"+name, help, func() time.Duration { return time.Duration(nanoseconds.Load()) })
	}
	reg.CounterFunc(panics.Metric, panics.Help, panics.Total)
	s := &r.stats
	count("cells_in_total", "Cells received on links.", &s.Channel.CellsIn)
	count("cells_out_total", "Cells sent on links.", &s.Channel.CellsOut)
	count("link_in_bytes_total", "Bytes received on links, without TLS.", &s.Channel.BytesIn)
	count("link_out_bytes_total", "Bytes sent on links, without TLS.", &s.Channel.BytesOut)
	count("records_out_total", "TLS records sent.", &s.Channel.RecordsOut)
	count("onionskins_total", "Circuit handshakes done.", &s.Circuit.Onionskins)
	count("onionskins_dropped_total", "Circuit handshakes refused for load.", &s.Circuit.OnionskinsDropped)
	seconds("onionskin_seconds_total", "Processor time spent on circuit handshakes.", &s.Circuit.OnionNanos)
	seconds("onionskin_queue_seconds_total", "Time that circuit handshakes waited, all of them together.", &s.Circuit.QueueNanos)
	count("circuits_cgo_total", "Circuits whose cells are encrypted by counter galois onion.", &s.Circuit.CGO)
	count("circuits_congestion_total", "Circuits with congestion control.", &s.Circuit.Congestion)
	count("extends_total", "Extends asked for.", &s.Circuit.Extends)
	count("extends_failed_total", "Extends that failed.", &s.Circuit.ExtendsFailed)
	count("streams_opened_total", "Exit streams opened.", &s.Exit.Opened)
	count("streams_refused_total", "Streams refused.", &s.Exit.Refused)
	count("streams_failed_total", "Exit streams that could not be connected.", &s.Exit.Failed)
	count("lookups_total", "Names looked up.", &s.Exit.Resolves)
	count("lookup_cache_hits_total", "Names found in the cache.", &s.Exit.CacheHits)
	count("lookup_errors_total", "Lookups that failed.", &s.Exit.DNSErrors)
	count("connections_refused_total", "Connections refused by limits.", &s.ConnsRefused)
	count("handshakes_failed_total", "Link handshakes that failed.", &s.HandshakesFailed)
	count("circuits_refused_total", "Circuits refused by limits.", &s.CircuitsRefused)
	count("padding_cells_total", "Cells that circuit padding machines sent to clients.", &s.Circuit.Padding)
	count("introductions_total", "Introductions of clients that were sent on to onion services.", &s.Circuit.Introductions)
	count("introductions_refused_total", "Introductions that were refused.", &s.Circuit.IntroductionsRefused)
	count("rendezvous_total", "Pairs of circuits that were joined for onion services.", &s.Circuit.Rendezvous)
	gauge := func(name, help string, v func() int) {
		reg.GaugeFunc("chive_relay_"+name, help, func() int64 { return int64(v()) })
	}
	truth := func(name, help string, v func(*Status) bool) {
		gauge(name, help, func() int {
			if st := r.Status(); v(&st) {
				return 1
			}
			return 0
		})
	}
	if !r.cfg.Bridge { // no consensus lists one
		truth("listed", "1 if the newest consensus lists the relay, otherwise 0; a bridge does not have it.", func(s *Status) bool { return s.Listed })
	}
	truth("reachable", "1 if the relay's port was tested from outside, or is assumed to be reachable, otherwise 0.", func(s *Status) bool { return s.Reachable })
	reg.GaugeFunc("chive_relay_signing_key_ends_timestamp_seconds", "When the certificate of the signing key ends, in Unix time.", func() int64 { return r.Status().SigningKeyEnds.Unix() })
	gauge("introduction_points", "Circuits of onion services to this relay as an introduction point.", func() int { n, _ := r.server.HSPoints(); return n })
	gauge("rendezvous_waiting", "Circuits of clients that wait for an onion service.", func() int { _, n := r.server.HSPoints(); return n })
	if r.cache != nil {
		served := r.cache.server.Stats()
		count("directory_streams_over_rate_total", "Directory streams that a circuit began faster than the consensus allows: each was refused, or closed its circuit.", &served.Quick)
		count("directory_streams_repeated_total", "Second directory streams of a relay's circuit, which were refused because the consensus allows one.", &served.Again)
		d := r.cache.onions
		h := d.Stats()
		count("onion_descriptors_stored_total", "Descriptors of onion services that were taken.", &h.Stored)
		count("onion_descriptors_refused_total", "Descriptors of onion services that were refused.", &h.Refused)
		count("onion_descriptors_evicted_total", "Descriptors of onion services that made room for others.", &h.Evicted)
		count("onion_descriptors_fetched_total", "Requests for a descriptor of an onion service that was there.", &h.Fetched)
		count("onion_descriptors_missed_total", "Requests for a descriptor of an onion service that was not there.", &h.Missed)
		count("onion_descriptor_requests_repeated_total", "Requests about a descriptor of an onion service on a circuit that had one before; they end the circuit.", &h.Repeated)
		gauge("onion_descriptors", "Descriptors of onion services that are kept.", func() int { n, _ := d.Held(); return n })
		reg.GaugeFunc("chive_relay_onion_descriptor_bytes", "Size of the descriptors of onion services that are kept.", func() int64 { _, n := d.Held(); return n })
	}
	reg.CounterFunc("chive_relay_evicted_total", "Circuits and links closed to make room in memory.", func() uint64 {
		holders, _ := r.memory.Evicted()
		return holders
	})
	reg.GaugeFunc("chive_relay_memory_bytes", "Memory that peers make the relay hold.", r.memory.Used)
	reg.GaugeFunc("chive_relay_memory_bound_bytes", "Bound of the memory that peers make the relay hold.", r.memory.Bound)
	reg.GaugeFunc("chive_relay_hibernation", "What the limit of bytes allows: 0: all, or there is no limit; 1: nothing new; 2: nothing at all.", func() int64 { return int64(r.acct.status().State) })
	reg.GaugeFunc("chive_relay_accounting_limit_bytes", "Limit of the bytes of an interval; 0: none.", func() int64 { return int64(min(r.acct.status().Max, math.MaxInt64)) })
	reg.GaugeFunc("chive_relay_accounting_used_bytes", "Bytes of the present interval that count against the limit.", func() int64 { return int64(min(r.acct.status().Used, math.MaxInt64)) })
	reg.GaugeFunc("chive_relay_accounting_end_timestamp_seconds", "When the present interval ends, in Unix time; 0: there is no limit.", func() int64 { return unixTime(r.acct.status().Interval.End) })
	reg.GaugeFunc("chive_relay_accounting_wake_timestamp_seconds", "From when on the relay serves in the present interval, in Unix time; 0: there is no limit.", func() int64 { return unixTime(r.acct.status().Wake) })
	reg.GaugeFunc("chive_relay_circuits", "Open circuits.", s.Circuit.Circuits.Load)
	reg.GaugeFunc("chive_relay_streams", "Open exit streams.", s.Exit.Streams.Load)
	reg.GaugeFunc("chive_relay_channels", "Open links.", func() int64 { return int64(len(r.channels.Channels())) })
	reg.GaugeFunc("chive_relay_connections", "File descriptors in use by links.", r.gate.open.Load)
	reg.GaugeFunc("chive_relay_observed_bandwidth_bytes", "Bytes a second that the relay has shown to carry.", func() int64 { return int64(r.bandwidth.Observed()) })
	reg.GaugeFunc("chive_relay_heap_bytes", "Memory of the heap in use.", func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse)
	})
}

// unixTime returns the seconds of a time since 1970; 0 of the zero time.
func unixTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// DescribeMetrics names in reg what a relay counts, without a relay: the functions in reg
// must not be called.
func DescribeMetrics(reg *metrics.Registry) {
	cache := &dirCache{server: dirserver.New(dirserver.Config{}), onions: new(dirserver.HSDir)}
	(&Relay{cache: cache, gate: new(gate)}).Register(reg)
}
