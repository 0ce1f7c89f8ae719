package metrics

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestHistogramAgainstSortedValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	var all []float64
	for range 5000 {
		d := time.Duration(math.Exp(rng.NormFloat64()*2-4) * float64(time.Second))
		all = append(all, d.Seconds())
		h.Observe(d)
	}
	slices.Sort(all)
	for _, p := range []float64{1, 25, 50, 90, 95, 99} {
		exact := all[int(p/100*float64(len(all)))-1]
		i, _ := slices.BinarySearch(bounds[:], exact)
		lower := 0.0
		if i > 0 {
			lower = bounds[i-1]
		}
		if got := h.percentile(p); got < lower || got > bounds[i] {
			t.Errorf("p%v is %v; the exact value %v is in (%v, %v]", p, got, exact, lower, bounds[i])
		}
	}
	var sum float64
	for _, v := range all {
		sum += v
	}
	if h.count() != 5000 || math.Abs(h.seconds()-sum) > 1e-6*sum {
		t.Errorf("count %d sum %v, want sum %v", h.count(), h.seconds(), sum)
	}
}

func TestHistogramEdges(t *testing.T) {
	if !slices.IsSorted(bounds[:]) {
		t.Error("the bounds do not ascend")
	}
	var h Histogram
	if h.percentile(50) != 0 {
		t.Error("an empty histogram has no values")
	}
	h.Observe(100 * time.Microsecond) // a bound belongs to its own bucket
	if h.counts[0].Load() != 1 {
		t.Error("le means less or equal")
	}
	h.Observe(-time.Second) // of a clock that went back
	if h.counts[0].Load() != 2 {
		t.Error("less than nothing is not in the first bucket")
	}
	h.Observe(time.Hour)
	if got := h.percentile(100); got != 120 {
		t.Errorf("above all bounds: %v, want the highest bound", got)
	}
	if h.percentile(0) != 0 {
		t.Error("the least of all is not at least 0")
	}
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}

// buckets are the lines of a histogram of 250 ms, 750 ms and three minutes.
func buckets(format string) string {
	var lines []string
	for _, le := range strings.Fields("0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1") {
		lines = append(lines, fmt.Sprintf(format, le, 0))
	}
	lines = append(lines, fmt.Sprintf(format, "0.25", 1), fmt.Sprintf(format, "0.5", 1))
	for _, le := range strings.Fields("1 2.5 5 10 30 60 120") {
		lines = append(lines, fmt.Sprintf(format, le, 2))
	}
	return strings.Join(append(lines, fmt.Sprintf(format, "+Inf", 3)), "\n")
}

func TestPrometheusText(t *testing.T) {
	var r Registry
	r.Counter(`chive_cells_total{dir="out"}`, "Cells.").Add(3)
	r.Counter(`chive_cells_total{dir="in"}`, "Cells.").Inc()
	for range 2 {
		r.Gauge("chive_circuits", "Open\ncircuits.").Dec()
	}
	r.GaugeFunc("chive_guards", "Guards.", func() int64 { return 7 })
	h := r.Histogram(`chive_build_seconds{hop="1"}`, "Build time.")
	h.Observe(250 * time.Millisecond)
	h.Observe(750 * time.Millisecond)
	h.Observe(3 * time.Minute)
	r.CounterFunc("chive_panics_total", "Panics.", func() uint64 { return 1 << 60 })
	r.SecondsFunc("chive_wait_seconds_total", "Waits.", func() time.Duration { return 1500 * time.Millisecond })
	want := `# HELP chive_build_seconds Build time.
# TYPE chive_build_seconds histogram
` + buckets(`chive_build_seconds_bucket{hop="1",le="%s"} %d`) + `
chive_build_seconds_sum{hop="1"} 181
chive_build_seconds_count{hop="1"} 3
# HELP chive_cells_total Cells.
# TYPE chive_cells_total counter
chive_cells_total{dir="in"} 1
chive_cells_total{dir="out"} 3
# HELP chive_circuits Open\ncircuits.
# TYPE chive_circuits gauge
chive_circuits -2
# HELP chive_guards Guards.
# TYPE chive_guards gauge
chive_guards 7
# HELP chive_panics_total Panics.
# TYPE chive_panics_total counter
chive_panics_total 1152921504606846976
# HELP chive_wait_seconds_total Waits.
# TYPE chive_wait_seconds_total counter
chive_wait_seconds_total 1.5
`
	var b strings.Builder
	if err := r.WritePrometheus(&b); err != nil || b.String() != want {
		t.Fatalf("%v\n%s", err, b.String())
	}
	var s Snapshot
	r.Snapshot(&s)
	if len(s.Counters) != 3 || s.Counters[1].Value != 3 || len(s.Gauges) != 2 || s.Gauges[1].Value != 7 ||
		len(s.Histograms) != 1 || s.Histograms[0].Count != 3 || s.Histograms[0].P99 != 120 || s.Histograms[0].Sum != 181 {
		t.Fatalf("snapshot: %+v", s)
	}
	if j, err := json.Marshal(&s); err != nil || !strings.Contains(string(j), `"name":"chive_guards","value":7`) || !strings.Contains(string(j), `"seconds":[{"name":"chive_wait_seconds_total","value":1.5}]`) {
		t.Fatalf("%s %v", j, err)
	}
}

// TestFamilies: what documents say of metrics comes without a call of a metric's function.
func TestFamilies(t *testing.T) {
	var r Registry
	r.CounterFunc(`b_total{kind="x",way="in"}`, "Bees.", func() uint64 { panic("called") })
	r.Counter(`b_total{kind="y",way="in"}`, "Bees.")
	r.GaugeFunc("a", "Ants.", func() int64 { panic("called") })
	r.SecondsFunc("c_seconds_total", "Cats.", func() time.Duration { panic("called") })
	r.Histogram("d_seconds", "Dogs.")
	want := []Family{{"a", "gauge", "Ants.", nil}, {"b_total", "counter", "Bees.", []string{`kind="x"`, `way="in"`, `kind="y"`}},
		{"c_seconds_total", "counter", "Cats.", nil}, {"d_seconds", "histogram", "Dogs.", nil}}
	if got := r.Families(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestRegistryReturnsTheSameMetric(t *testing.T) {
	var r Registry
	a, b, c := r.Counter("a", ""), r.Gauge("b", ""), r.Histogram("c", "")
	if a != r.Counter("a", "") || b != r.Gauge("b", "") || c != r.Histogram("c", "") {
		t.Error("a second registration made a second metric")
	}
	mustPanic(t, func() { r.Gauge("a", "") })
	mustPanic(t, func() { r.Histogram("b", "") })
	mustPanic(t, func() { r.GaugeFunc("b", "", func() int64 { return 1 }) })
	r.GaugeFunc("f", "", func() int64 { return 1 })
	mustPanic(t, func() { r.Gauge("f", "") })
	r.GaugeFunc("f", "", func() int64 { return 2 })
	var s Snapshot
	if r.Snapshot(&s); s.Gauges[1].Value != 2 {
		t.Error("a gauge function was not replaced")
	}
	r.CounterFunc("g_total", "", func() uint64 { return 3 })
	mustPanic(t, func() { r.Counter("g_total", "") })
	r.CounterFunc("g_total", "", func() uint64 { return 4 })
	mustPanic(t, func() { r.CounterFunc("b", "", func() uint64 { return 4 }) })
	if r.Snapshot(&s); s.Counters[1] != (CounterValue{"g_total", 4}) {
		t.Error("a counter function was not replaced")
	}
	var text strings.Builder
	if err := r.WritePrometheus(&text); err != nil || !strings.Contains(text.String(), "# TYPE g_total counter\ng_total 4\n") {
		t.Error(text.String(), err)
	}
	for _, bad := range []string{"", "1a", "a b", "a{", "a{}", `a{b}`, `a{b="c}`, `a{b="c"},`, `a{b:c="d"}`, `a{b="c\"d"}`} {
		mustPanic(t, func() { r.Counter(bad, "") })
	}
}

func TestConcurrentUse(t *testing.T) {
	var r Registry
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				r.Counter("c", "").Inc()
				r.Gauge("g", "").Inc()
				r.Gauge("g", "").Dec()
				r.Histogram("h", "").Observe(time.Second / 2)
			}
			var s Snapshot
			r.Snapshot(&s)
		})
	}
	wg.Wait()
	if r.Counter("c", "").Value() != 8000 || r.Gauge("g", "").Value() != 0 || r.Histogram("h", "").seconds() != 4000 {
		t.Error("updates were lost")
	}
}

func TestNoAllocations(t *testing.T) {
	var r Registry
	c, g, h := r.Counter("c", ""), r.Gauge("g", ""), r.Histogram("h", "")
	if n := testing.AllocsPerRun(100, func() {
		c.Inc()
		g.Dec()
		h.Observe(3 * time.Millisecond)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
