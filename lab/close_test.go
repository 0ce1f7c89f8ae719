package lab_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/lab"
)

// TestRestartAfterClose: whoever ends and starts relays may still do so while the network closes.
// No relay begins after that, for nobody would end it.
func TestRestartAfterClose(t *testing.T) {
	nw := start(t, lab.Options{Authorities: 1, Relays: 3, Exits: 1})
	if err := nw.Close(); err != nil {
		t.Fatal(err)
	}
	for _, n := range nw.Nodes() {
		if n.Role != lab.Relay {
			continue
		}
		if err := n.Restart(t.Context()); !fault.Is(err, fault.Closed) {
			t.Errorf("%s: %v", n.Name, err)
			n.Stop()
		}
	}
	if _, err := os.Stat(nw.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files after Close: %v", err)
	}
}
