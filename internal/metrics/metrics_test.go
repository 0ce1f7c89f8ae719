package metrics

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestHistogramAgainstSortedValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	h := NewHistogram(Seconds...)
	var all []float64
	for range 5000 {
		v := math.Exp(rng.NormFloat64()*2 - 4)
		all = append(all, v)
		h.Observe(v)
	}
	slices.Sort(all)
	for _, p := range []float64{1, 25, 50, 90, 95, 99} {
		exact := all[int(p/100*float64(len(all)))-1]
		i, _ := slices.BinarySearch(Seconds, exact)
		lower := 0.0
		if i > 0 {
			lower = Seconds[i-1]
		}
		if got := h.Percentile(p); got < lower || got > Seconds[i] {
			t.Errorf("p%v is %v; the exact value %v is in (%v, %v]", p, got, exact, lower, Seconds[i])
		}
	}
	var sum float64
	for _, v := range all {
		sum += v
	}
	if h.Count() != 5000 || math.Abs(h.Sum()-sum) > 1e-6*sum || math.Abs(h.Mean()-sum/5000) > 1e-6*sum {
		t.Errorf("count %d sum %v mean %v, want sum %v", h.Count(), h.Sum(), h.Mean(), sum)
	}
}

func TestHistogramEdges(t *testing.T) {
	h := NewHistogram(1, 2)
	if h.Percentile(50) != 0 || h.Mean() != 0 {
		t.Error("an empty histogram has no values")
	}
	h.Observe(math.NaN())
	if h.Count() != 0 {
		t.Error("NaN was counted")
	}
	h.Observe(1) // a bound belongs to its own bucket
	if h.counts[0].Load() != 1 {
		t.Error("le means less or equal")
	}
	h.Observe(100)
	if got := h.Percentile(100); got != 2 {
		t.Errorf("above all bounds: %v, want the highest bound", got)
	}
	if h.Percentile(-5) != 0 || h.Percentile(500) != 2 {
		t.Error("percentiles outside 0 to 100 are clamped")
	}
	for _, bad := range [][]float64{{1, 1}, {2, 1}, {math.NaN()}, {math.Inf(1)}} {
		mustPanic(t, func() { NewHistogram(bad...) })
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

func TestPrometheusText(t *testing.T) {
	var r Registry
	r.Counter(`chive_cells_total{dir="out"}`, "Cells.").Add(3)
	r.Counter(`chive_cells_total{dir="in"}`, "Cells.").Inc()
	r.Gauge("chive_circuits", "Open\ncircuits.").Set(-2)
	r.GaugeFunc("chive_guards", "Guards.", func() int64 { return 7 })
	h := r.Histogram(`chive_build_seconds{hop="1"}`, "Build time.", .5, 1)
	h.Observe(.25)
	h.Observe(.75)
	h.Observe(8)
	const want = `# HELP chive_build_seconds Build time.
# TYPE chive_build_seconds histogram
chive_build_seconds_bucket{hop="1",le="0.5"} 1
chive_build_seconds_bucket{hop="1",le="1"} 2
chive_build_seconds_bucket{hop="1",le="+Inf"} 3
chive_build_seconds_sum{hop="1"} 9
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
`
	var b strings.Builder
	if err := r.WritePrometheus(&b); err != nil || b.String() != want {
		t.Fatalf("%v\n%s", err, b.String())
	}
	var s Snapshot
	r.Snapshot(&s)
	if len(s.Counters) != 2 || s.Counters[1].Value != 3 || len(s.Gauges) != 2 || s.Gauges[1].Value != 7 ||
		len(s.Histograms) != 1 || s.Histograms[0].Count != 3 || s.Histograms[0].P99 != 1 {
		t.Fatalf("snapshot: %+v", s)
	}
	if j, err := json.Marshal(&s); err != nil || !strings.Contains(string(j), `"name":"chive_guards","value":7`) {
		t.Fatalf("%s %v", j, err)
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
				r.Histogram("h", "", 1).Observe(.5)
			}
			var s Snapshot
			r.Snapshot(&s)
		})
	}
	wg.Wait()
	if r.Counter("c", "").Value() != 8000 || r.Gauge("g", "").Value() != 0 || r.Histogram("h", "").Sum() != 4000 {
		t.Error("updates were lost")
	}
}

func TestNoAllocations(t *testing.T) {
	var r Registry
	c, g, h := r.Counter("c", ""), r.Gauge("g", ""), r.Histogram("h", "")
	var s Snapshot
	r.Snapshot(&s)
	if n := testing.AllocsPerRun(100, func() {
		c.Inc()
		g.Set(4)
		h.Observe(.003)
		_ = h.Percentile(95)
		r.Snapshot(&s)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
