package metrics

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"
)

// Registry is a named set of metrics. The zero value is empty and ready;
// methods may be called from any goroutine. Those that name a metric panic when
// the name is no metric's, or is taken by another kind: both are mistakes in
// the program.
type Registry struct {
	mu      sync.Mutex // guards what follows
	entries []entry    // sorted by family, then by labels
}

// entry is one metric under its name.
type entry struct {
	name           string // family{labels}
	family, labels string // labels without the braces, perhaps empty
	help           string
	metric         metric
}

// Counter returns the counter of that name, which it makes when there is none.
func (r *Registry) Counter(name, help string) *Counter {
	return register(r, name, help, new(Counter), false)
}

// Gauge returns the gauge of that name, which it makes when there is none.
func (r *Registry) Gauge(name, help string) *Gauge {
	return register(r, name, help, new(Gauge), false)
}

// Histogram returns the histogram of that name, which it makes when there is
// none.
func (r *Registry) Histogram(name, help string) *Histogram {
	return register(r, name, help, new(Histogram), false)
}

// CounterFunc registers a counter that is kept elsewhere: f returns its value.
// A second registration replaces the first. f must be quick, safe for any
// goroutine, and must not use the registry.
func (r *Registry) CounterFunc(name, help string, f func() uint64) {
	register(r, name, help, counterFunc(f), true)
}

// SecondsFunc is CounterFunc for a counter of time, which is printed in seconds.
func (r *Registry) SecondsFunc(name, help string, f func() time.Duration) {
	register(r, name, help, secondsFunc(f), true)
}

// GaugeFunc is CounterFunc for a gauge.
func (r *Registry) GaugeFunc(name, help string, f func() int64) {
	register(r, name, help, gaugeFunc(f), true)
}

// metricName is a name of Prometheus' data model. Values of labels have no
// character that would need an escape.
var metricName = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)` +
	`(?:\{([a-zA-Z_][a-zA-Z0-9_]*="[^"\\\n{},]*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="[^"\\\n{},]*")*)\})?$`)

// labelPair is one label of a name, with its value.
var labelPair = regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_]*="[^"]*"`)

// register returns the metric of that name: m when there is none, or when m
// replaces it.
func register[M metric](r *Registry, name, help string, m M, replace bool) M {
	parts := metricName.FindStringSubmatch(name)
	if parts == nil {
		panic(fmt.Sprintf("metrics: %q is not a metric's name", name))
	}
	e := entry{name, parts[1], parts[2], help, m}
	r.mu.Lock()
	defer r.mu.Unlock()
	i, found := slices.BinarySearchFunc(r.entries, e, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.labels, b.labels))
	})
	if !found {
		r.entries = slices.Insert(r.entries, i, e)
		return m
	}
	have, ok := r.entries[i].metric.(M)
	if !ok {
		panic(fmt.Sprintf("metrics: %s is a %T, not a %T", name, r.entries[i].metric, m))
	}
	if !replace {
		return have
	}
	r.entries[i].metric = m
	return m
}
