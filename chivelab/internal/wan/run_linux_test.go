package wan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/chivelab/internal/linktun"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/namespace"
)

// TestMain makes this program a node when it is started as one.
func TestMain(m *testing.M) {
	namespace.Inside()
	if len(os.Args) > 1 {
		var err error
		switch os.Args[1] {
		case "client":
			err = ServeClient(context.Background(), os.Stdin, os.Stdout)
		case "target":
			err = ServeTarget(context.Background(), os.Args[2])
		case "bench": // as the simulator starts it
			if len(os.Args) == 5 {
				err = ServeTarget(context.Background(), os.Args[4])
			} else {
				err = Ask(context.Background(), os.Args[4], os.Args[5])
			}
		case "relay", "proxy", "authority":
			cli.Main(cli.Root("chive", "for a test", cli.Commands()...))
			return
		default:
			os.Exit(m.Run())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// small is a comparison of next to nothing.
func small() Plan {
	p := Short()
	p.Relays, p.Clients, p.Losses = 3, 1, []float64{0}
	p.Window, p.Patience, p.Requests = 10*time.Millisecond, startTime, 2
	p.Sizes = []Size{{10 << 10, .5, 1}, {20 << 10, .5, 1}}
	return p
}

// TestRun: each side fetches its pages over the same path, a second call has nothing left to do, and nothing stays. How
// late the packets were, it does not judge: the machine may have other work.
func TestRun(t *testing.T) {
	tor, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	before := runtime.NumGoroutine()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	r := &Run{Self: []string{self}, Chive: self, Tor: tor, Dir: filepath.Join(t.TempDir(), "out"), Plan: small(),
		Progress: func(p Progress) { said = append(said, fmt.Sprintf("%s %d %d %v", p.What, p.Done, p.Of, p.Left > 0)) }}
	report, err := r.Do(t.Context())
	if errors.Is(err, linktun.ErrDenied) {
		t.Skip("SKIPPED:", err)
	} else if err != nil {
		t.Fatal(err)
	}
	sides := map[Side]bool{}
	for _, x := range report.Runs {
		sides[x.Side] = true
		if x.Requests != 2 || x.Failed != 0 || x.Lateness.Packets < 40 || x.Busy <= 0 {
			t.Errorf("%+v", x)
		}
	}
	if len(sides) != 4 {
		t.Errorf("%d sides in %d runs", len(sides), len(report.Runs))
	}
	if _, err := os.Stat(filepath.Join(r.Dir, nodesName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the nodes' files: %v", err)
	}
	if text := strings.Join(said, "\n"); !strings.Contains(text, "starting relays: seed 1, all C tor 0 4 true") || !strings.Contains(text, "fetching with 0 % loss: seed 1, C tor clients, Chive relays 3 4 true") {
		t.Error(text)
	}
	for runtime.NumGoroutine() > before { // the test's time bounds it
		runtime.Gosched()
	}
	again := *r
	again.Progress = func(p Progress) { t.Errorf("something is left: %+v", p) }
	second, err := again.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(second.Sessions) != 2 || len(second.Runs) != len(report.Runs) {
		t.Errorf("%d sessions, %d runs", len(second.Sessions), len(second.Runs))
	}
	again.Plan.Clients = 2
	if _, err := again.Do(t.Context()); err == nil || !strings.Contains(err.Error(), "another comparison") {
		t.Errorf("another plan in the same directory: %v", err)
	}
}

// TestRunEnded: a comparison whose context ends, and one whose nodes end, say so and leave nothing.
func TestRunEnded(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// It says its version, and ends as a node at once.
	tor := filepath.Join(t.TempDir(), "tor")
	if err := os.WriteFile(tor, []byte("#!/bin/sh\ntest \"$1\" = --version || exit 1\necho Tor version 0.4.9.11. OpenSSL 3.0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for _, c := range []struct {
		tor, want string
		end       bool
	}{{tor, "has ended (1", false}, {tor, "0 of 4 runs are written", true}, {"/bin/true", "names no version", false}} {
		ctx, cancel := context.WithCancel(t.Context())
		r := &Run{Self: []string{self}, Chive: self, Tor: c.tor, Dir: filepath.Join(t.TempDir(), "out"), Plan: small()}
		r.Progress = func(p Progress) {
			if c.end {
				cancel()
			}
		}
		_, err := r.Do(ctx)
		cancel()
		if errors.Is(err, linktun.ErrDenied) {
			t.Skip("SKIPPED:", err)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if _, err := os.Stat(filepath.Join(r.Dir, nodesName)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the nodes' files: %v", err)
		}
	}
	for runtime.NumGoroutine() > before { // the test's time bounds it
		runtime.Gosched()
	}
}
