package metrics

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"
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
		switch v := e.value().(type) {
		case uint64:
			s.Counters = append(s.Counters, CounterValue{e.name, v})
		case time.Duration:
			s.Seconds = append(s.Seconds, SecondsValue{e.name, v.Seconds()})
		case int64:
			s.Gauges = append(s.Gauges, GaugeValue{e.name, v})
		case *Histogram:
			s.Histograms = append(s.Histograms, HistogramValue{e.name, v.count(), v.seconds(), v.percentile(50), v.percentile(95), v.percentile(99)})
		}
	}
}

// WriteJSON writes a Snapshot as JSON.
func (r *Registry) WriteJSON(w io.Writer) error {
	var s Snapshot
	r.Snapshot(&s)
	return json.NewEncoder(w).Encode(&s)
}

// value returns a counter's value as a uint64 or a time.Duration, a gauge's as an
// int64, and a histogram as it is.
func (e *entry) value() any {
	switch m := e.metric.(type) {
	case *Counter:
		return m.Value()
	case func() uint64:
		return m()
	case func() time.Duration:
		return m()
	case *Gauge:
		return m.Value()
	case func() int64:
		return m()
	}
	return e.metric
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
		var lines []byte
		switch v := e.value().(type) {
		case uint64:
			lines = strconv.AppendUint([]byte(e.name+" "), v, 10)
		case time.Duration:
			lines = strconv.AppendFloat([]byte(e.name+" "), v.Seconds(), 'g', -1, 64)
		case int64:
			lines = strconv.AppendInt([]byte(e.name+" "), v, 10)
		case *Histogram:
			lines = v.lines(e.family, e.labels)
		}
		if e.family != family {
			family = e.family
			b = append(b, "# HELP "+family+" "+helpEscapes.Replace(e.help)+"\n# TYPE "+family+" "+e.kind()+"\n"...)
		}
		b = append(append(b, lines...), '\n')
	}
	return b
}

// kind is the metric's type in Prometheus' words.
func (e *entry) kind() string {
	switch e.metric.(type) {
	case *Gauge, func() int64:
		return "gauge"
	case *Histogram:
		return "histogram"
	}
	return "counter"
}

var helpEscapes = strings.NewReplacer("\\", `\\`, "\n", `\n`)

// lines are the cumulative buckets, the sum and the count.
func (h *Histogram) lines(family, labels string) (b []byte) {
	comma, braced := "", ""
	if labels != "" {
		comma, braced = ",", "{"+labels+"}"
	}
	var total uint64
	for i := range h.counts {
		bound := "+Inf"
		if i < len(bounds) {
			bound = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		total += h.counts[i].Load()
		b = append(b, family+"_bucket{"+labels+comma+`le="`+bound+`"} `...)
		b = append(strconv.AppendUint(b, total, 10), '\n')
	}
	b = append(b, family+"_sum"+braced+" "...)
	b = append(strconv.AppendFloat(b, h.seconds(), 'g', -1, 64), '\n')
	b = append(b, family+"_count"+braced+" "...)
	return strconv.AppendUint(b, total, 10)
}
