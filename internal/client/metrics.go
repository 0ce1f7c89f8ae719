package client

import (
	"fmt"
	"time"

	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/panics"
)

// clientMetrics counts what a client does.
type clientMetrics struct {
	launched, failed, builtN   *metrics.Counter
	streamsFailed, confluxSets *metrics.Counter
	read, written              *metrics.Counter
	connect                    *metrics.Histogram
	hops                       [8]*metrics.Histogram
	protected                  map[handshake.Carriage]*metrics.Counter // hops, by carriage; zero: none
	whole, part, bare          *metrics.Counter                        // circuits
}

func newMetrics(r *metrics.Registry, c *Client) *clientMetrics {
	m := &clientMetrics{
		launched:      r.Counter("chive_circuits_launched_total", "Circuits that were begun."),
		builtN:        r.Counter("chive_circuits_built_total", "Circuits that were completed."),
		failed:        r.Counter("chive_circuits_failed_total", "Circuits that could not be completed."),
		confluxSets:   r.Counter("chive_conflux_sets_total", "Conflux sets that were linked."),
		streamsFailed: r.Counter("chive_streams_failed_total", "Streams that could not be opened."),
		read:          r.Counter("chive_stream_read_bytes_total", "Bytes that closed streams delivered."),
		written:       r.Counter("chive_stream_written_bytes_total", "Bytes that closed streams took."),
		connect:       r.Histogram("chive_stream_connect_seconds", "Time from a request to CONNECTED."),
	}
	m.protected = map[handshake.Carriage]*metrics.Counter{}
	for how, name := range map[handshake.Carriage]string{0: "classical", handshake.CarriageA: "post-quantum-a", handshake.CarriageB: "post-quantum-b"} {
		m.protected[how] = r.Counter(fmt.Sprintf(`chive_hops_built_total{protection="%s"}`, name), "Hops of completed circuits, by what protects them.")
	}
	for name, into := range map[string]**metrics.Counter{"all": &m.whole, "some": &m.part, "none": &m.bare} {
		*into = r.Counter(fmt.Sprintf(`chive_circuits_protected_total{hops="%s"}`, name), "Completed circuits, by how many hops are post-quantum.")
	}
	for i := range m.hops {
		m.hops[i] = r.Histogram(fmt.Sprintf(`chive_circuit_build_seconds{hop="%d"}`, i+1), "Time from a circuit's beginning until the hop was built.")
	}
	r.CounterFunc(panics.Metric, panics.Help, panics.Total)
	r.GaugeFunc("chive_ready", "1 if traffic can flow, otherwise 0.", func() int64 {
		if c.Bootstrap().Ready {
			return 1
		}
		return 0
	})
	r.GaugeFunc("chive_directory_age_seconds", "Time since the consensus became valid; -1 without a consensus.", func() int64 {
		d := c.dirs.Directory()
		if d == nil {
			return -1
		}
		return int64(time.Since(d.ValidAfter()) / time.Second)
	})
	r.GaugeFunc("chive_circuits_open", "Open circuits.", c.circs.count)
	r.GaugeFunc("chive_circuits_building", "Circuits being built.", c.making.Load)
	r.GaugeFunc("chive_memory_bytes", "Memory that relays make the client hold.", c.memory.Used)
	r.CounterFunc("chive_memory_evicted_total", "Circuits and links closed to make room in memory.", func() uint64 {
		holders, _ := c.memory.Evicted()
		return holders
	})
	r.GaugeFunc("chive_streams_open", "Open streams.", c.streams.Load)
	r.GaugeFunc("chive_channels_open", "Open links to relays.", func() int64 { return int64(len(c.chans.Channels())) })
	r.GaugeFunc("chive_cells_queued", "Cells that wait for a link.", func() int64 {
		var n int64
		for _, ch := range c.chans.Channels() {
			n += int64(ch.Queued())
		}
		return n
	})
	r.CounterFunc("chive_cells_in_total", "Cells received since the start.", c.stats.CellsIn.Load)
	r.CounterFunc("chive_cells_out_total", "Cells sent since the start.", c.stats.CellsOut.Load)
	r.CounterFunc("chive_link_in_bytes_total", "Bytes of cells received since the start.", c.stats.BytesIn.Load)
	r.CounterFunc("chive_link_out_bytes_total", "Bytes of cells sent since the start.", c.stats.BytesOut.Load)
	r.GaugeFunc("chive_guards_sampled", "Guards in the sample.", func() int64 { return int64(c.guards.Status(time.Now()).Sampled) })
	r.GaugeFunc("chive_guards_confirmed", "Guards that were used.", func() int64 { return int64(c.guards.Status(time.Now()).Confirmed) })
	return m
}

// DescribeMetrics names in r what a client counts, without a client: the functions in r
// must not be called.
func DescribeMetrics(r *metrics.Registry) { newMetrics(r, new(Client)) }

// built records a completed circuit's times.
func (m *clientMetrics) built(took []time.Duration, protection []HopProtection) {
	m.builtN.Inc()
	n := 0
	for _, p := range protection {
		m.protected[p.Carriage].Inc()
		if !p.IsZero() {
			n++
		}
	}
	switch n {
	case 0:
		m.bare.Inc()
	case len(protection):
		m.whole.Inc()
	default:
		m.part.Inc()
	}
	for i, d := range took {
		if i < len(m.hops) {
			m.hops[i].Observe(d)
		}
	}
}
