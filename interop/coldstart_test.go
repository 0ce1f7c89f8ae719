package interop

import (
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
)

// TestColdStart measures how long ten nodes (three authorities, five relays, two
// exits) take from the start to the last of a million bytes through three hops:
// "chivelab run", the same with a process for each node, and C tor's.
func TestColdStart(t *testing.T) {
	if os.Getenv("CHIVE_LONG") == "" {
		t.Skip("SKIPPED, NOTHING WAS MEASURED: it is for a quiet machine; CHIVE_LONG=1 runs it")
	}
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	bin, err := buildLab()
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) func() {
		return func() {
			if out, err := exec.CommandContext(bounded(t, time.Minute), bin, append([]string{"run"}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
	for _, c := range []struct {
		what string
		run  func()
	}{
		{"chivelab run", run()},
		{"chivelab run --processes", run("--processes")},
		{"C tor", func() {
			nw, err := ctor.Start(bounded(t, 2*time.Minute), ctor.Options{Relays: 5, Exits: 2, Clients: 1, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer nw.Close()
			d := socksclient.Dialer{Proxy: nw.ByRole(ctor.Client)[0].SOCKS.String()}
			if err := download(bounded(t, time.Minute), d, shared.target.Addr(target.Source), 1_000_000); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		var took []time.Duration
		for range 5 {
			began := time.Now()
			c.run()
			took = append(took, time.Since(began).Round(10*time.Millisecond))
		}
		t.Logf("%s: %v", c.what, took)
	}
}
