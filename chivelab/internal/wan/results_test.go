package wan

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/chivelab/internal/links"
)

// made writes runs into a directory: the first was late, and measured again.
func made(t *testing.T, dir string, p *Plan) *results {
	t.Helper()
	f, err := openResults(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := p.Layout(1)
	for i, task := range append(p.Tasks()[:1:1], p.Tasks()...) {
		x := RunResult{Task: task, Session: 1, Late: i == 0, Busy: .5, Took: time.Second, Lateness: links.Lateness{Packets: 10, Sum: time.Millisecond, Worst: time.Millisecond}}
		var answers [][]answer
		for c, client := range l.Clients {
			var all []answer
			for r := range client.Requests {
				a := answer{Request: r, First: float64(10 + c), Total: float64(100 + 10*r + c)}
				if task.Side != Baseline {
					a.First, a.Total = a.First/2, a.Total/2
				}
				if x.Late {
					a = answer{Request: r, Failed: "a late one, \"quoted\""}
				}
				all = append(all, a)
			}
			answers = append(answers, all)
		}
		if err := f.add(x, l, answers); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// TestResults: what was written is read again. A run that was cut off does not count, and its number is not used again.
func TestResults(t *testing.T) {
	dir, p := t.TempDir(), Short()
	f := made(t, dir, &p)
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, SamplesName)
	doc, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(doc, "77,0,0,51200,1,2,\n77,0,1,51"...), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := openResults(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if !reflect.DeepEqual(again.runs, f.runs) || len(again.samples) != len(f.samples)+1 || !reflect.DeepEqual(again.samples[:len(f.samples)], f.samples) {
		t.Errorf("%d runs and %d samples were written, %d and %d read", len(f.runs), len(f.samples), len(again.runs), len(again.samples))
	}
	if n := again.next(); n != 78 {
		t.Errorf("the next run is %d", n)
	}
	r := NewReport(&p, nil, again.runs, again.samples)
	if len(r.Missing) > 0 || r.Late() != 1 || len(r.Runs) != 9 || r.Runs[0].Failed != 60 || r.Runs[1].Failed != 0 {
		t.Errorf("missing %v, %d late, runs %+v", r.Missing, r.Late(), r.Runs)
	}
	ratios := 0
	for _, x := range r.Results {
		if x.Failed != 0 || x.Millis == nil {
			t.Errorf("%s has samples of a late run, or none: %+v", x.name(), x)
		}
		if x.Side == Baseline {
			continue
		}
		if ratios++; x.Ratio == nil || x.Ratio.Value < .499 || x.Ratio.Value > .501 {
			t.Errorf("%s of %v: %v, want 0.5", x.name(), x.Side, x.Ratio)
		}
	}
	if ratios != 2*3*8 {
		t.Errorf("%d ratios", ratios)
	}
	if text := r.Table(); !strings.Contains(text, "1 of them late") || !strings.Contains(text, "50 KiB, first byte, median") || !strings.Contains(text, "0.50 (0.50 to 0.50)") {
		t.Error(text)
	}
	if left, tried := (&Run{plan: &p}).left(again.runs); len(left) != 0 || tried[p.Tasks()[0]] != 2 {
		t.Errorf("%d runs are left", len(left))
	}
}

// TestMissing: a run that was late each time is not in the report, and what is compared with it is not either.
func TestMissing(t *testing.T) {
	p := Short()
	f := made(t, t.TempDir(), &p)
	defer f.close()
	for i := range f.runs {
		if f.runs[i].Side == Baseline && f.runs[i].Loss == 0 {
			f.runs[i].Late = true
		}
	}
	r := NewReport(&p, nil, f.runs, f.samples)
	if r.Err() == nil || len(r.Missing) != 1 || !strings.Contains(r.Table(), "not complete: all C tor, 0 % loss: 0 of 1 seeds") {
		t.Errorf("%v, %v\n%s", r.Err(), r.Missing, r.Table())
	}
	for _, x := range r.Results {
		if x.Loss == 0 && (x.Side == Baseline || x.Ratio != nil) {
			t.Errorf("it is reported: %+v", x)
		}
		if x.Loss != 0 && x.Side != Baseline && x.Ratio == nil {
			t.Errorf("it is not reported: %+v", x)
		}
	}
}

// TestBadTables: errors name the file, the line and the column.
func TestBadTables(t *testing.T) {
	runs, samples := strings.Join(runColumns, ",")+"\n", strings.Join(sampleColumns, ",")+"\n"
	for _, c := range []struct{ file, text, want string }{
		{RunsName, "a,b\n1,2\n", RunsName + ":1: this is another table"},
		{RunsName, runs + "1,1,tor,tor,0,1,maybe,1,1,1,0,0,1,1\n", RunsName + ":2: late"},
		{RunsName, runs + "1,1,tor,arti,0,1,true,1,1,1,0,0,1,1\n", RunsName + ":2: clients"},
		{RunsName, runs + "1,1,tor,tor,x,1,true,1,1,1,0,0,1,1\n", RunsName + ":2: loss"},
		{RunsName, runs + "1,2\n", RunsName},
		{SamplesName, samples + "1,0,0,51200,1,2,\n1,0,0,-5,1,2,\n", SamplesName + ":3: size"},
		{SamplesName, samples + "1,0,0,5,NaN,2,\n", SamplesName + ":2: first_ms"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err := openResults(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
			if err == nil {
				f.close()
			}
		}
	}
}
