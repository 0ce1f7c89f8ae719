package experiment

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/labtest"
)

// TestRemaining: what counts is not measured again, and what was late is, however often it was.
func TestRemaining(t *testing.T) {
	f, err := Parse("small.toml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	tasks := f.Tasks()
	have := []Sample{{Task: tasks[0]}, {Task: tasks[1], Late: true}, {Task: tasks[1], Late: true}, {Task: tasks[1], Late: true}, {Task: tasks[2], Late: true}, {Task: tasks[2], Failed: "x"}}
	if left := remaining(f, have); !slices.Equal(left, slices.Concat(tasks[1:2], tasks[3:])) {
		t.Error(left)
	}
}

// TestBroken: when a node has ended, nothing more is measured.
func TestBroken(t *testing.T) {
	ctx, fail := context.WithCancelCause(t.Context())
	m := &machine{site: &Site{running: ctx}}
	fail(fault.New(fault.Local, "guard has ended"))
	out, err := m.all(t.Context(), []Task{{KindCircuit, "ntor-v3", 1}}, nil, func(Progress) { t.Error("it is measured") })
	if len(out) > 0 || !errors.Is(err, fault.Local) || !strings.Contains(err.Error(), "0 of 1 samples are written") || !strings.Contains(err.Error(), "guard has ended") {
		t.Error(out, err)
	}
}

// TestRun: an experiment that is ended goes on where it was, with each sample once, and its report can be made again.
func TestRun(t *testing.T) {
	labtest.NoLeaks(t)
	dir := filepath.Join(t.TempDir(), "small")
	f, err := Parse("small.toml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	part, stop := context.WithCancel(ctx)
	defer stop()
	_, err = Run(part, f, dir, "test", Programs{}, func(p Progress) {
		if p.Done == 2 {
			stop()
		}
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "2 of 9 samples are written") {
		t.Fatal(err)
	}
	early, err := ReadSamples(filepath.Join(dir, SamplesName))
	if err != nil {
		t.Fatal(err)
	}
	first := 0
	r, err := Run(ctx, f, dir, "test", Programs{}, func(p Progress) {
		if first == 0 {
			first = p.Of
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := len(remaining(f, early)); first != want || want < 7 || len(r.Sessions) != 2 { // what was late is measured again
		t.Errorf("%d samples were left, in session %d", first, len(r.Sessions))
	}
	samples, err := ReadSamples(filepath.Join(dir, SamplesName))
	if err != nil {
		t.Fatal(err)
	}
	done := map[Task]bool{}
	for i, s := range samples {
		if done[s.Task] {
			t.Errorf("%v was measured again", s.Task)
		}
		done[s.Task] = !s.Late
		if s.Failed != "" {
			t.Errorf("%v: %s", s.Task, s.Failed)
		}
		if want := 1 + min(1, i/len(early)); s.Session != want && i != len(early)-1 {
			t.Errorf("sample %d is of session %d", i, s.Session)
		}
		if s.Packets == 0 {
			t.Errorf("%v went over no link", s.Task)
		}
		for _, m := range map[string][]string{KindCircuit: {"total", "hop1", "hop2", "begin", "round_trip"}, KindDownload: {"first_byte", "goodput"}, KindDirectory: {"directory"}}[s.Kind] {
			if s.Values[m] <= 0 {
				t.Errorf("%v: %s is %v", s.Task, m, s.Values[m])
			}
		}
		if s.Kind == KindCircuit && s.Values["round_trip"] < 4 { // up and down at both ends, 1 ms each
			t.Errorf("%v: a round trip of %v ms is shorter than the links", s.Task, s.Values["round_trip"])
		}
	}
	for _, task := range f.Tasks() {
		if _, ok := done[task]; !ok {
			t.Errorf("%v was not measured", task)
		}
	}
	again, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again.Table() != r.Table() || again.File != "small.toml" {
		t.Errorf("made again from the samples, the report is\n%s", again.Table())
	}
	for _, name := range []string{FileName, ReportName, SamplesName} {
		if i, err := os.Stat(filepath.Join(dir, name)); err != nil || i.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	other, err := Parse("small.toml", []byte(small+"# other\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(ctx, other, dir, "test", Programs{}, func(Progress) {}); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "another experiment") {
		t.Error(err)
	}
}

// TestLoadNothing: a directory without an experiment is an error.
func TestLoadNothing(t *testing.T) {
	if _, err := Load(t.TempDir()); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
}
