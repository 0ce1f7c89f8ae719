package bench

import (
	"slices"
	"testing"

	"github.com/chivenet/chive/program/programtest"
)

// TestTorLines: no tor learns build timeouts from one machine's circuits, and each kind has its own lines
// beside that.
func TestTorLines(t *testing.T) {
	programtest.NoLeaks(t)
	w, err := newWorld(Config{Sizes: Defaults()})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		network string
		more    int
	}{{ofChive, 0}, {ofLinks, 1}, {string(Vanilla), 1}, {string(KIST), 0}} {
		opts, err := w.options(c.network)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(opts.CtorTorrc, "LearnCircuitBuildTimeout 0") || len(opts.CtorTorrc) != 1+c.more || opts.CtorClients != 2 {
			t.Errorf("%s: %d clients, torrc %q", c.network, opts.CtorClients, opts.CtorTorrc)
		}
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
}
