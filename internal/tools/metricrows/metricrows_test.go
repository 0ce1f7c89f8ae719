package metricrows

import (
	"reflect"
	"slices"
	"testing"

	"github.com/chivenet/chive/internal/metrics"
)

// TestRows: what Rows writes, Read reads.
func TestRows(t *testing.T) {
	r := new(metrics.Registry)
	for _, n := range []string{`a_total{kind="x",way="in"}`, `a_total{kind="y",way="in"}`} {
		r.Counter(n, "Ants | bees.")
	}
	r.Histogram("b_seconds", "Waits.")
	r.Gauge("c_ready", "1 if it is, otherwise 0.")
	want := []Row{
		{"a_total", "counter", "`kind`: x, y; `way`: in", "number", "Ants | bees.", []string{"chive proxy", "chive relay"}},
		{"b_seconds", "histogram", "", "seconds", "Waits.", []string{"chive proxy", "chive relay"}},
		{"c_ready", "gauge", "", "0 or 1", "1 if it is, otherwise 0.", []string{"chive proxy", "chive relay"}},
	}
	page := "# Words\n\n" + Head + Rows(r, "chive proxy", "chive relay") + "\n| other | table |\n"
	rows := Read([]byte(page))
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("%q\n%s", rows, page)
	}
	names := Names("rate(chive_b_seconds_bucket[5m]) / chive_b_seconds_count, chive_x_count", []Row{{Name: "chive_b_seconds", Type: "histogram"}})
	if !slices.Equal(names, []string{"chive_b_seconds", "chive_b_seconds", "chive_x_count"}) {
		t.Error(names)
	}
}

func TestUnit(t *testing.T) {
	for name, want := range map[string]string{"a_timestamp_seconds": "seconds since 1970", "a_seconds_total": "seconds", "a_bytes": "bytes",
		"a_bandwidth_bytes": "bytes a second", "a_total": "number"} {
		if got := Unit(name, "Something."); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
