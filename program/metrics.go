package program

import (
	"bytes"
	"io"
	"net/http"

	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/tools/metricrows"
)

// Metrics are the metrics of a program, which keeps the values itself. Make them with NewMetrics. Methods
// may be called from any goroutine.
//
// A name may carry constant labels, in Prometheus' own notation: app_requests_total{class="headers"}. The
// functions must be quick, safe for any goroutine, and must not use the Metrics. A name that is no metric's,
// or that has another type already, panics: both are mistakes in the program.
type Metrics struct{ registry metrics.Registry }

// NewMetrics returns metrics with chive_panics_total, the panics that Contain and Chive have contained. The
// metrics of a client are not among them: see Client.WriteMetrics.
func NewMetrics() *Metrics {
	m := new(Metrics)
	m.registry.CounterFunc(panics.Metric, panics.Help, panics.Total)
	return m
}

// Counter adds a counter, whose value only grows.
func (m *Metrics) Counter(name, help string, value func() uint64) {
	m.registry.CounterFunc(name, help, value)
}

// Gauge adds a gauge, whose value goes up and down.
func (m *Metrics) Gauge(name, help string, value func() int64) {
	m.registry.GaugeFunc(name, help, value)
}

// Write writes all metrics as Prometheus reads them.
func (m *Metrics) Write(w io.Writer) error { return m.registry.WritePrometheus(w) }

// ServeHTTP implements http.Handler: it answers with what Write writes.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		http.Error(w, "the metrics cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", metrics.ContentType)
	w.Write(b.Bytes()) // an error means that who asked has gone
}

// Table returns a table of all metrics in Markdown, for documents: name, type, labels, unit, meaning, and
// the command that has them.
func (m *Metrics) Table(command string) string {
	return metricrows.Head + metricrows.Rows(&m.registry, command)
}
