// Package ctortest has networks of C tor for single tests.
package ctortest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
)

// NewestTor returns the path of the newest release of tor, which CHIVE_TOR_NEWEST
// names, for tests that need another release than the usual one. Without it, it
// skips or fails as labtest.Need does.
func NewestTor(t testing.TB) string {
	t.Helper()
	path := os.Getenv("CHIVE_TOR_NEWEST")
	var err error
	if path == "" {
		err = errors.New("CHIVE_TOR_NEWEST does not name one")
	} else {
		path, _, err = ctor.Find(path)
	}
	labtest.Need(t, "the newest C tor", err)
	return path
}

// Network starts a network of C tor for one test, or skips as labtest.Need does.
func Network(t testing.TB, opts ctor.Options) *ctor.Network {
	t.Helper()
	_, _, err := ctor.Find(opts.TorPath)
	labtest.Need(t, "C tor", err)
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
