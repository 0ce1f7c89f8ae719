package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Registry is a named set of metrics. The zero value is empty and ready;
// methods may be called from any goroutine.
type Registry struct {
	mu      sync.Mutex
	entries []entry // sorted by family, then by labels
}

// entry is one metric under its name. Exactly one of the last five is set.
type entry struct {
	family   string // the name without labels
	labels   string // the inside of the braces, perhaps empty
	fullName string // both, as registered
	help     string

	counter     *Counter
	counterFunc func() uint64
	gauge       *Gauge
	gaugeFunc   func() int64
	histogram   *Histogram
}

// kind is the word of a Prometheus TYPE line.
func (e *entry) kind() string {
	switch {
	case e.counter != nil || e.counterFunc != nil:
		return "counter"
	case e.histogram != nil:
		return "histogram"
	}
	return "gauge"
}

// Counter returns the counter of that name, which it makes when there is
// none. Like the other constructors it panics when the name is not a metric's
// name, or is taken by another kind: both are mistakes in the program.
func (r *Registry) Counter(name, help string) *Counter {
	e := r.register(name, help, func(e *entry) { e.counter = new(Counter) })
	if e.counter == nil {
		panic("metrics: " + name + " is already a function")
	}
	return e.counter
}

// CounterFunc registers a counter that is kept elsewhere: f returns its value
// when it is asked for. A second registration replaces the first. f must be
// quick, safe for any goroutine, and must not use the registry.
func (r *Registry) CounterFunc(name, help string, f func() uint64) {
	r.register(name, help, func(e *entry) { e.counterFunc = f })
	r.mu.Lock()
	defer r.mu.Unlock()
	family, labels, _ := splitName(name)
	if i, ok := r.find(family, labels); ok {
		r.entries[i].counter, r.entries[i].counterFunc = nil, f
	}
}

// Gauge returns the gauge of that name, which it makes when there is none.
func (r *Registry) Gauge(name, help string) *Gauge {
	e := r.register(name, help, func(e *entry) { e.gauge = new(Gauge) })
	if e.gauge == nil {
		panic("metrics: " + name + " is already a function")
	}
	return e.gauge
}

// GaugeFunc registers a gauge whose value f returns when it is asked for; a
// second registration replaces the first. f must be quick, safe for any
// goroutine, and must not use the registry.
func (r *Registry) GaugeFunc(name, help string, f func() int64) {
	r.register(name, help, func(e *entry) { e.gauge, e.gaugeFunc = nil, f })
	r.mu.Lock()
	defer r.mu.Unlock()
	family, labels, _ := splitName(name)
	if i, ok := r.find(family, labels); ok {
		r.entries[i].gauge, r.entries[i].gaugeFunc = nil, f
	}
}

// Histogram returns the histogram of that name, which it makes with the given
// bounds (see NewHistogram) when there is none.
func (r *Registry) Histogram(name, help string, bounds ...float64) *Histogram {
	return r.register(name, help, func(e *entry) { e.histogram = NewHistogram(bounds...) }).histogram
}

func (r *Registry) register(name, help string, fill func(*entry)) entry {
	family, labels, ok := splitName(name)
	if !ok {
		panic(fmt.Sprintf("metrics: %q is not a metric's name", name))
	}
	e := entry{family: family, labels: labels, fullName: name, help: help}
	fill(&e)
	r.mu.Lock()
	defer r.mu.Unlock()
	i, found := r.find(family, labels)
	if found {
		if have := r.entries[i]; have.kind() == e.kind() {
			return have
		}
		panic(fmt.Sprintf("metrics: %s is a %s, not a %s", name, r.entries[i].kind(), e.kind()))
	}
	r.entries = slices.Insert(r.entries, i, e)
	return e
}

// find returns the entry's place. Callers hold mu.
func (r *Registry) find(family, labels string) (int, bool) {
	return slices.BinarySearchFunc(r.entries, [2]string{family, labels}, func(e entry, k [2]string) int {
		return cmp.Or(cmp.Compare(e.family, k[0]), cmp.Compare(e.labels, k[1]))
	})
}

// splitName parts family{labels}, and reports whether both are well formed.
func splitName(name string) (family, labels string, ok bool) {
	family, rest, braces := strings.Cut(name, "{")
	if !isName(family) {
		return "", "", false
	}
	if !braces {
		return family, "", true
	}
	labels, ok = strings.CutSuffix(rest, "}")
	if !ok {
		return "", "", false
	}
	for l := range strings.SplitSeq(labels, ",") {
		key, value, ok := strings.Cut(l, "=")
		if !ok || !isName(key) || strings.Contains(key, ":") || len(value) < 2 || value[0] != '"' ||
			value[len(value)-1] != '"' || strings.ContainsAny(value[1:len(value)-1], "\"\\\n{}") {
			return "", "", false
		}
	}
	return family, labels, true
}

// isName follows Prometheus' data model: [a-zA-Z_:][a-zA-Z0-9_:]*.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
