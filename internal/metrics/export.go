package metrics

import (
	"encoding/json"
	"io"
	"strings"
)

// Snapshot is every metric's value at about one moment, ready for JSON. The
// values are read one after another, so two of them may be an event apart.
type Snapshot struct {
	Counters   []CounterValue   `json:"counters"`
	Seconds    []SecondsValue   `json:"seconds,omitempty"`
	Gauges     []GaugeValue     `json:"gauges"`
	Histograms []HistogramValue `json:"histograms"`
}

// CounterValue is a counter's name, with labels, and value.
type CounterValue struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// SecondsValue is the name, with labels, of a counter of time, and its value.
type SecondsValue struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// GaugeValue is a gauge's name, with labels, and value.
type GaugeValue struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// HistogramValue is a histogram's name, with labels, and what it has seen, in
// seconds.
type HistogramValue struct {
	Name  string  `json:"name"`
	Count uint64  `json:"count"`
	Sum   float64 `json:"sum"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
}

// Snapshot fills s, reusing its storage.
func (r *Registry) Snapshot(s *Snapshot) {
	s.Counters, s.Seconds, s.Gauges, s.Histograms = s.Counters[:0], s.Seconds[:0], s.Gauges[:0], s.Histograms[:0]
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		e.metric.snapshot(e.name, s)
	}
}

// WriteJSON writes a Snapshot as JSON.
func (r *Registry) WriteJSON(w io.Writer) error {
	var s Snapshot
	r.Snapshot(&s)
	return json.NewEncoder(w).Encode(&s)
}

// ContentType is the media type of what WritePrometheus writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// WritePrometheus writes every metric in Prometheus' text exposition format,
// version 0.0.4. It writes once, and returns that write's error.
func (r *Registry) WritePrometheus(w io.Writer) error {
	_, err := w.Write(r.appendPrometheus(nil))
	return err
}

func (r *Registry) appendPrometheus(b []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	family := ""
	for _, e := range r.entries {
		if e.family != family {
			family = e.family
			b = append(b, "# HELP "+family+" "+helpEscapes.Replace(e.help)+"\n# TYPE "+family+" "+e.metric.kind()+"\n"...)
		}
		b = append(e.metric.appendLines(b, &e), '\n')
	}
	return b
}

var helpEscapes = strings.NewReplacer("\\", `\\`, "\n", `\n`)
