// Package labtest has helpers for tests that need programs of other projects.
package labtest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
)

// Need skips the test, and says why, if the error says that a program is
// missing; with CHIVE_INTEROP=1 it fails instead, so that a machine that should
// have the programs cannot pass without them. It skips in short mode.
func Need(t testing.TB, what string, err error) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: nothing against other programs")
	}
	if err == nil {
		return
	}
	if os.Getenv("CHIVE_INTEROP") == "1" {
		t.Fatalf("%s: %v (CHIVE_INTEROP=1 makes this a failure)", what, err)
	}
	t.Skipf("SKIPPED, NOTHING WAS TESTED: %s: %v", what, err)
}

// NewestTor returns the path of the newest release of tor, which CHIVE_TOR_NEWEST
// names, for tests that need another release than the usual one. Without it, it
// skips or fails as Need does.
func NewestTor(t testing.TB) string {
	t.Helper()
	path := os.Getenv("CHIVE_TOR_NEWEST")
	var err error
	if path == "" {
		err = errors.New("CHIVE_TOR_NEWEST does not name one")
	} else {
		path, _, err = ctor.Find(path)
	}
	Need(t, "the newest C tor", err)
	return path
}

// Network starts a network of C tor for one test, or skips as Need does.
func Network(t testing.TB, opts ctor.Options) *ctor.Network {
	t.Helper()
	_, _, err := ctor.Find(opts.TorPath)
	Need(t, "C tor", err)
	if opts.Log == nil {
		opts.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	nw, err := ctor.Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(nw.LastWords())
		}
		if err := nw.Close(); err != nil {
			t.Error(err)
		}
	})
	return nw
}
