package metrics

import (
	"io"
	"strconv"
	"strings"
)

// Snapshot is every metric's value at about one moment, ready for JSON. The
// values are read one after another, so two of them may be an event apart.
type Snapshot struct {
	Counters   []CounterValue   `json:"counters"`
	Gauges     []GaugeValue     `json:"gauges"`
	Histograms []HistogramValue `json:"histograms"`
}

// CounterValue is a counter's name, with labels, and value.
type CounterValue struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// GaugeValue is a gauge's name, with labels, and value.
type GaugeValue struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// HistogramValue is a histogram's name, with labels, and what it has seen, in
// the unit of its observations.
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
	s.Counters, s.Gauges, s.Histograms = s.Counters[:0], s.Gauges[:0], s.Histograms[:0]
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.entries {
		switch e := &r.entries[i]; {
		case e.counter != nil:
			s.Counters = append(s.Counters, CounterValue{e.fullName, e.counter.Value()})
		case e.counterFunc != nil:
			s.Counters = append(s.Counters, CounterValue{e.fullName, e.counterFunc()})
		case e.gauge != nil:
			s.Gauges = append(s.Gauges, GaugeValue{e.fullName, e.gauge.Value()})
		case e.gaugeFunc != nil:
			s.Gauges = append(s.Gauges, GaugeValue{e.fullName, e.gaugeFunc()})
		default:
			h := e.histogram
			s.Histograms = append(s.Histograms, HistogramValue{
				e.fullName, h.Count(), h.Sum(), h.Percentile(50), h.Percentile(95), h.Percentile(99),
			})
		}
	}
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
	for i := range r.entries {
		e := &r.entries[i]
		if e.family != family {
			family = e.family
			b = append(b, "# HELP "+family+" "+helpEscapes.Replace(e.help)+"\n# TYPE "+family+" "+e.kind()+"\n"...)
		}
		switch {
		case e.counter != nil:
			b = strconv.AppendUint(append(b, e.fullName+" "...), e.counter.Value(), 10)
		case e.counterFunc != nil:
			b = strconv.AppendUint(append(b, e.fullName+" "...), e.counterFunc(), 10)
		case e.gauge != nil:
			b = strconv.AppendInt(append(b, e.fullName+" "...), e.gauge.Value(), 10)
		case e.gaugeFunc != nil:
			b = strconv.AppendInt(append(b, e.fullName+" "...), e.gaugeFunc(), 10)
		default:
			b = e.appendHistogram(b)
		}
		b = append(b, '\n')
	}
	return b
}

var helpEscapes = strings.NewReplacer("\\", `\\`, "\n", `\n`)

// appendHistogram writes the cumulative buckets, the sum and the count.
func (e *entry) appendHistogram(b []byte) []byte {
	comma, braced := "", ""
	if e.labels != "" {
		comma, braced = ",", "{"+e.labels+"}"
	}
	var total uint64
	for i := range e.histogram.counts {
		bound := "+Inf"
		if i < len(e.histogram.bounds) {
			bound = strconv.FormatFloat(e.histogram.bounds[i], 'g', -1, 64)
		}
		total += e.histogram.counts[i].Load()
		b = append(b, e.family+"_bucket{"+e.labels+comma+`le="`+bound+`"} `...)
		b = append(strconv.AppendUint(b, total, 10), '\n')
	}
	b = append(b, e.family+"_sum"+braced+" "...)
	b = append(strconv.AppendFloat(b, e.histogram.Sum(), 'g', -1, 64), '\n')
	b = append(b, e.family+"_count"+braced+" "...)
	return strconv.AppendUint(b, total, 10)
}
