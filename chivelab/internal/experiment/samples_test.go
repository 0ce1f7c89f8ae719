package experiment

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/chivelab/internal/links"
)

func TestSamples(t *testing.T) {
	name := filepath.Join(t.TempDir(), SamplesName)
	file, have, err := openSamples(name, 2)
	if err != nil || len(have) != 0 {
		t.Fatal(have, err)
	}
	want := []Sample{
		{Task: Task{KindCircuit, "pq768", 1}, Session: 1, Values: map[string]float64{"total": 3.5, "hop1": 1.25, "hop2": 2.25},
			Lateness: Lateness{links.Lateness{Packets: 10, Sum: 3 * time.Millisecond, Far: 1, Overrun: 2}}},
		{Task: Task{KindDirectory, "", 2}, Session: 1, Late: true, Failed: `it said "no", and more`, Values: map[string]float64{}},
	}
	for i := range want {
		if err := file.add(&want[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	// A run that was killed left a part of a line.
	if err := os.WriteFile(name, append(whole, "circuit,pq7"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadSamples(name); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	file, have, err = openSamples(name, 2)
	if err != nil || !reflect.DeepEqual(have, want) {
		t.Fatalf("%+v, %v", have, err)
	}
	if err := file.add(&want[0]); err != nil {
		t.Fatal(err)
	}
	file.close()
	if got, err := ReadSamples(name); err != nil || len(got) != 3 || !reflect.DeepEqual(got[2], want[0]) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, _, err := openSamples(name, 3); err == nil || !strings.Contains(err.Error(), "another experiment") {
		t.Error(err)
	}
}

// TestWrongSamples: what is no sample is told with its line.
func TestWrongSamples(t *testing.T) {
	head, err := line(append(append([]string(nil), fixed...), "total"))
	if err != nil {
		t.Fatal(err)
	}
	for row, want := range map[string]string{
		"circuit,x,1,1,maybe,,1,1,1,1,1\n":   "s.csv:2: late",
		"circuit,x,-1,1,true,,1,1,1,1,1\n":   "s.csv:2: repetition",
		"circuit,x,1,1,true,,1,1,1,1,NaN\n":  "s.csv:2: total",
		"circuit,x,1,1,true,,1,+Inf,1,1,1\n": "s.csv:2: packets_late_ms",
		"circuit,x,1\n":                      "line 2",
	} {
		if _, err := parseSamples("s.csv", append(head[:len(head):len(head)], row...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", row, err)
		}
	}
	if _, err := parseSamples("s.csv", nil); err == nil {
		t.Error("nothing is a file of samples")
	}
}
