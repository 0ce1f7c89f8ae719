package interop

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/gethtest"
	"github.com/chivenet/chive/lab"
)

// historyOfDials is for how long geth dials no node again that it has dialed.
const historyOfDials = 35 * time.Second

// has reports whether a geth has another as a peer.
func (g *geth) has(ctx context.Context, id string) bool {
	var list []struct{ ID string }
	if err := g.client.CallContext(ctx, &list, "admin_peers"); err != nil {
		return false
	}
	for _, p := range list {
		if p.ID == id {
			return true
		}
	}
	return false
}

// stable is for how long geths must be connected to count as connected: what a geth has not
// noticed yet is over sooner.
const stable = 3 * time.Second

// TestSidecarKilled kills a sidecar and starts it again: the geths meet again. The log tells how
// long that took.
func TestSidecarKilled(t *testing.T) {
	gethtest.Program(t, "geth")
	dir := t.TempDir()
	chiveEth := build(t)
	nw := startLab(t, lab.Options{})
	a, b := startGeth(t), startGeth(t)
	c := third(t, devp2p.Embedded(nw.Client))
	start := func(i int, g *geth) *exec.Cmd {
		t.Helper()
		cmd := exec.Command(chiveEth, "sidecar", "--ipc", g.ipc, "--only-onion", "--network", nw.NetworkFile,
			"--data-dir", filepath.Join(dir, fmt.Sprint("sidecar", i)), "--static", c.String())
		if i == 0 {
			cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return cmd
		}
		runAs(t, cmd)
		return cmd
	}
	killed := start(0, a)
	kill := func() {
		if err := killed.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = killed.Wait() // it was killed
	}
	defer func() { kill() }()
	start(1, b)
	met := func(ctx context.Context) bool { return a.has(ctx, b.info.ID) && b.has(ctx, a.info.ID) }
	a.await(t, "the other geth", met)
	<-time.After(historyOfDials + time.Second) // as they do that have been connected for long
	a.await(t, "the other geth", met)
	kill()
	began := time.Now()
	killed = start(0, a)
	a.await(t, "that geth sees the end", func(ctx context.Context) bool { return !a.has(ctx, b.info.ID) })
	var since time.Time
	a.await(t, "the other geth again", func(ctx context.Context) bool {
		switch {
		case !met(ctx):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		}
		return !since.IsZero() && time.Since(since) > stable
	})
	t.Logf("the geths met again %v after the sidecar was killed", since.Sub(began).Round(100*time.Millisecond))
}
