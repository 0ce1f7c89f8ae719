package authority

import (
	"time"

	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/panics"
)

// Register names the authority's metrics in reg.
func (a *Authority) Register(reg *metrics.Registry) {
	gauge := func(name, help string, f func(Status) int64) {
		reg.GaugeFunc("chive_authority_"+name, help, func() int64 { return f(a.Status()) })
	}
	unix := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.Unix()
	}
	gauge("relays", "Relays that have sent a descriptor.", func(s Status) int64 { return int64(s.Relays) })
	gauge("relays_running", "Relays that it would vote for now.", func(s Status) int64 { return int64(s.Running) })
	gauge("votes", "Votes of the round under way that are here.", func(s Status) int64 { return int64(s.Votes) })
	gauge("signatures", "Signatures of the consensus that it serves.", func(s Status) int64 { return int64(s.Signatures) })
	gauge("consensus_valid_until_timestamp_seconds", "When the consensus that it serves ends, in Unix time; 0: there is none.", func(s Status) int64 { return unix(s.ValidUntil) })
	gauge("certificate_ends_timestamp_seconds", "When the certificate of the signing key ends, in Unix time.", func(s Status) int64 { return unix(s.CertificateEnds) })
	reg.GaugeFunc("chive_authority_memory_bytes", "Memory that others make the authority hold.", a.memory.Used)
	reg.GaugeFunc("chive_authority_memory_bound_bytes", "Bound of the memory that others make the authority hold.", a.memory.Bound)
	reg.CounterFunc("chive_authority_evicted_total", "Links, circuits and requests closed to make room in memory.", func() uint64 {
		holders, _ := a.memory.Evicted()
		return holders
	})
	reg.CounterFunc(panics.Metric, panics.Help, panics.Total)
}

// DescribeMetrics names in reg what an authority counts, without an authority: the
// functions in reg must not be called.
func DescribeMetrics(reg *metrics.Registry) { new(Authority).Register(reg) }
