package shadow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/chivelab/internal/shadowfile"
)

// results writes what a simulation of an experiment leaves, with these samples of the client, and a client beside it.
func results(t *testing.T, f *experiment.File, samples []experiment.Sample) (dir string) {
	t.Helper()
	dir = t.TempDir()
	data := filepath.Join(dir, dataDir)
	host := filepath.Join(data, hostsDir, measuringHost)
	if _, err := experiment.Take(f, filepath.Join(host, resultsDir), []experiment.Session{{Began: shadowfile.Begin, Version: "1"}}, samples); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, configName), "")
	write(t, filepath.Join(data, experimentName), string(f.Text))
	write(t, filepath.Join(host, "chivelab.1000.stderr"), "the end of what it said\n")
	for _, name := range []string{"user0", "user1"} {
		user := filepath.Join(data, hostsDir, name)
		if err := os.MkdirAll(user, 0o700); err != nil {
			t.Fatal(err)
		}
		w, err := experiment.NewWriter(filepath.Join(user, fetchesName), 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			s := experiment.Sample{Task: experiment.Task{Kind: experiment.KindFetch, Handshake: "tor-51200", Repetition: i + 1}, Session: 1,
				Values: map[string]float64{experiment.MeasureFirst: 100, experiment.MeasureTotal: 200}}
			if err := w.Add(&s); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// whole are samples of all that an experiment asks for.
func whole(f *experiment.File) (out []experiment.Sample) {
	for _, task := range f.Tasks() {
		out = append(out, experiment.Sample{Task: task, Session: 1, Values: map[string]float64{experiment.MeasureTotal: 250}})
	}
	return out
}

// TestImport: the report has what the client found and the pages of all others, and can be made again of the samples.
func TestImport(t *testing.T) {
	f := parse(t, ntor)
	dir := results(t, f, whole(f))
	for _, from := range []string{dir, filepath.Join(dir, dataDir)} {
		out := filepath.Join(t.TempDir(), "out")
		r, err := Import(from, out)
		if err != nil {
			t.Fatal(err)
		}
		again, err := experiment.Load(out)
		if err != nil || again.Table() != r.Table() {
			t.Errorf("%v\n%s\n%s", err, again.Table(), r.Table())
		}
		got := map[string]int{}
		for _, g := range r.Groups {
			got[strings.TrimSpace(g.Kind+" "+g.Handshake)] = g.Samples
		}
		for name, n := range map[string]int{"circuit ntor-v3": 2, "download ntor-v3": 1, "directory": 1, "fetch tor-51200": 4} {
			if got[name] != n {
				t.Errorf("%d samples of %s, not %d", got[name], name, n)
			}
		}
		if _, err := Import(from, out); err == nil || !strings.Contains(err.Error(), "stays as it is") {
			t.Errorf("a second import there: %v", err)
		}
	}
}

// TestImportPart: what is missing is told, with what the client said last, and what is there is kept.
func TestImportPart(t *testing.T) {
	f := parse(t, ntor)
	out := filepath.Join(t.TempDir(), "out")
	r, err := Import(results(t, f, whole(f)[:1]), out)
	if r == nil || err == nil || !strings.Contains(err.Error(), "3 of 4 samples are missing") || !strings.Contains(err.Error(), "the end of what it said") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := experiment.Load(out); err != nil {
		t.Error(err)
	}
}

// TestImportRefuses: results that cannot be believed are errors with their place.
func TestImportRefuses(t *testing.T) {
	f := parse(t, ntor)
	data := func(dir string, names ...string) string {
		return filepath.Join(append([]string{dir, dataDir}, names...)...)
	}
	samples := []string{hostsDir, measuringHost, resultsDir, experiment.SamplesName}
	for want, spoil := range map[string]func(dir string) error{
		"has no results of a simulation": func(dir string) error { return os.RemoveAll(data(dir, hostsDir)) },
		"the end of what it said":        func(dir string) error { return os.RemoveAll(data(dir, hostsDir, measuringHost, resultsDir)) },
		"samples.csv:2: ": func(dir string) error {
			doc, err := os.ReadFile(data(dir, samples...))
			if err != nil {
				return err
			}
			return os.WriteFile(data(dir, samples...), []byte(strings.Replace(string(doc), ",1,1,false", ",x,1,false", 1)), 0o600)
		},
		"another experiment": func(dir string) error { return os.WriteFile(data(dir, experimentName), []byte("seed = 1\n"), 0o600) },
		"fetches.csv:1: ": func(dir string) error {
			return os.WriteFile(data(dir, hostsDir, "user1", fetchesName), []byte("x,y\n"), 0o600)
		},
		"user1/fetches.csv": func(dir string) error { return os.Remove(data(dir, hostsDir, "user1", fetchesName)) },
		`samples of the kind "circuit"`: func(dir string) error {
			name := data(dir, hostsDir, "user0", fetchesName)
			doc, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			return os.WriteFile(name, []byte(strings.Replace(string(doc), "fetch,", "circuit,", 1)), 0o600)
		},
	} {
		dir := results(t, f, whole(f))
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := Import(dir, filepath.Join(t.TempDir(), "out")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v instead of %q", err, want)
		}
	}
}
