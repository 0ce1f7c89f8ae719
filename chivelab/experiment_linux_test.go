package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/namespace"
)

// ofTor is an experiment with nodes of both programs.
const ofTor = `title = "C tor"
repetitions = 2
downloads = 1
directories = 1
program = "tor"
handshakes = ["ntor-v3"]
path = ["guard", "exit"]
link = [{ name = "radio", delay = "5ms" }]
place = [{ name = "field", link = "radio" }]
node = [
  { name = "terminal", role = "client", place = "field" },
  { name = "directory", role = "authority", place = "field" },
  { name = "guard", role = "relay", place = "field", program = "chive" },
  { name = "exit", role = "exit", place = "field" },
]
`

// TestExperimentWithTor: circuits by relays of Chive and of C tor over emulated links take the time of the links at least, and nothing is
// left but samples and the report. A node that does not start is an error, and leaves nothing either.
func TestExperimentWithTor(t *testing.T) {
	labtest.NoLeaks(t)
	tor, err := exec.LookPath("tor")
	if err != nil {
		if os.Getenv("CHIVE_INTEROP") != "" {
			t.Fatal(err)
		}
		t.Skip("SKIPPED, NOTHING WAS TESTED:", err)
	}
	self, err := exec.LookPath("chivelab")
	if err != nil {
		t.Fatal(err)
	}
	f, err := experiment.Parse("tor.toml", []byte(ofTor))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	run := func(tor string) (string, error) {
		dir := t.TempDir()
		_, err := experiment.Run(ctx, f, dir, "test", experiment.Programs{Tor: tor, Self: []string{self}}, func(experiment.Progress) {})
		if _, left := os.Lstat(filepath.Join(dir, "nodes")); !errors.Is(left, os.ErrNotExist) {
			t.Error("what is left:", left)
		}
		return dir, err
	}
	if _, err := run("false"); errors.Is(err, namespace.ErrDenied) {
		t.Skip("SKIPPED, NOTHING WAS TESTED:", err)
	} else if !errors.Is(err, fault.Local) || !strings.Contains(err.Error(), "has ended (1, ") {
		t.Error(err)
	}
	dir, err := run(tor)
	if err != nil {
		t.Fatal(err)
	}
	samples, err := experiment.ReadSamples(filepath.Join(dir, experiment.SamplesName))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, s := range samples { // those for which this machine was too slow, too: times are not judged but for their least
		if s.Failed != "" {
			t.Errorf("%v: %s", s.Task, s.Failed)
		}
		if total := s.Values[experiment.MeasureTotal]; s.Kind == experiment.KindCircuit && total < 4*(5+5) {
			t.Errorf("%v: two hops took %.1f ms", s.Task, total)
		}
		kinds[s.Kind] = max(kinds[s.Kind], s.Repetition)
	}
	if kinds[experiment.KindCircuit] != 2 || kinds[experiment.KindDownload] != 1 || kinds[experiment.KindDirectory] != 1 {
		t.Error(kinds)
	}
}
