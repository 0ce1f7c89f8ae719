package metrics

import (
	"strconv"
	"time"
)

// metric is what a registry holds: each kind knows how it is written.
type metric interface {
	kind() string                          // the type in Prometheus' words
	snapshot(name string, s *Snapshot)     // appends the value
	appendLines(b []byte, e *entry) []byte // appends Prometheus' lines, without the last newline
}

// These are kept elsewhere.
type (
	counterFunc func() uint64
	secondsFunc func() time.Duration
	gaugeFunc   func() int64
)

func (c *Counter) kind() string   { return "counter" }
func (counterFunc) kind() string  { return "counter" }
func (secondsFunc) kind() string  { return "counter" }
func (g *Gauge) kind() string     { return "gauge" }
func (gaugeFunc) kind() string    { return "gauge" }
func (h *Histogram) kind() string { return "histogram" }

func (c *Counter) snapshot(name string, s *Snapshot) {
	s.Counters = append(s.Counters, CounterValue{name, c.Value()})
}

func (f counterFunc) snapshot(name string, s *Snapshot) {
	s.Counters = append(s.Counters, CounterValue{name, f()})
}

func (f secondsFunc) snapshot(name string, s *Snapshot) {
	s.Seconds = append(s.Seconds, SecondsValue{name, f().Seconds()})
}

func (g *Gauge) snapshot(name string, s *Snapshot) {
	s.Gauges = append(s.Gauges, GaugeValue{name, g.Value()})
}

func (f gaugeFunc) snapshot(name string, s *Snapshot) {
	s.Gauges = append(s.Gauges, GaugeValue{name, f()})
}

func (h *Histogram) snapshot(name string, s *Snapshot) {
	s.Histograms = append(s.Histograms, HistogramValue{name, h.count(), h.seconds(), h.percentile(50), h.percentile(95), h.percentile(99)})
}

func (c *Counter) appendLines(b []byte, e *entry) []byte {
	return strconv.AppendUint(append(b, e.name+" "...), c.Value(), 10)
}

func (f counterFunc) appendLines(b []byte, e *entry) []byte {
	return strconv.AppendUint(append(b, e.name+" "...), f(), 10)
}

func (f secondsFunc) appendLines(b []byte, e *entry) []byte {
	return strconv.AppendFloat(append(b, e.name+" "...), f().Seconds(), 'g', -1, 64)
}

func (g *Gauge) appendLines(b []byte, e *entry) []byte {
	return strconv.AppendInt(append(b, e.name+" "...), g.Value(), 10)
}

func (f gaugeFunc) appendLines(b []byte, e *entry) []byte {
	return strconv.AppendInt(append(b, e.name+" "...), f(), 10)
}

// appendLines appends the cumulative buckets, the sum and the count.
func (h *Histogram) appendLines(b []byte, e *entry) []byte {
	comma, braced := "", ""
	if e.labels != "" {
		comma, braced = ",", "{"+e.labels+"}"
	}
	var total uint64
	for i := range h.counts {
		bound := "+Inf"
		if i < len(bounds) {
			bound = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		total += h.counts[i].Load()
		b = append(b, e.family+"_bucket{"+e.labels+comma+`le="`+bound+`"} `...)
		b = append(strconv.AppendUint(b, total, 10), '\n')
	}
	b = append(b, e.family+"_sum"+braced+" "...)
	b = append(strconv.AppendFloat(b, h.seconds(), 'g', -1, 64), '\n')
	b = append(b, e.family+"_count"+braced+" "...)
	return strconv.AppendUint(b, total, 10)
}
