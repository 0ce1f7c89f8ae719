package client

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestLearnsNoOlderDirectory: once the client's parts have met a consensus that still lacks descriptors, they are not given the
// older one again that is whole.
func TestLearnsNoOlderDirectory(t *testing.T) {
	made := func(at time.Time) (*dirgen.Net, *netdir.Directory) {
		n, err := dirgen.New(dirgen.Options{Relays: 5, ValidAfter: at.UTC().Truncate(time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		d, err := n.Directory()
		if err != nil {
			t.Fatal(err)
		}
		return n, d
	}
	n, _ := made(time.Now().Add(-time.Hour))
	_, newer := made(time.Now().Add(-time.Minute))
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{"consensus-microdesc": n.Consensus, "certs": n.Certs, "microdescs": n.Microdescs} {
		if err := os.WriteFile(filepath.Join(dir, "directory", file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := New(Config{Network: n.Network, Dir: dir, Dial: refuse})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for c.dirs.Directory() == nil {
		changed := c.dirs.Changed()
		if c.dirs.Directory() != nil {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
		if ctx.Err() != nil || c.ctx.Err() != nil {
			t.Fatal("there is no directory")
		}
	}
	if c.learnNewest() == nil || c.known() == nil {
		t.Fatal("nothing was learned")
	}
	c.meet(newer)
	if c.learnNewest(); c.known() != newer {
		t.Errorf("the parts know a directory of %v again, after one of %v", c.known().ValidAfter(), newer.ValidAfter())
	}
}
