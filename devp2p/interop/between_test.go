package interop

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chivenet/chive/devp2p/internal/gethtest"
	"github.com/chivenet/chive/lab"
)

// between puts a chive-eth relay strictly between two stock geths: each has a sidecar that
// may connect it to one onion, which is the relay's. An empty geth gets all blocks of the
// other, and a transaction of each arrives at the other. sidecar changes how the sidecars
// are run; relayArgs are how the relay reaches onions.
func between(t *testing.T, nw *lab.Network, sidecar func(*exec.Cmd, *geth), relayArgs ...string) {
	dir := t.TempDir()
	chiveEth := build(t)
	data, err := testdata()
	if err != nil {
		t.Fatal(err)
	}
	full, empty := startGethWith(t, true, "--syncmode", "full"), startGethWith(t, false, "--syncmode", "full")
	full.follow(t)
	relayDir := filepath.Join(dir, "relay")
	run(t, chiveEth, append([]string{"relay", "--genesis", filepath.Join(data, "genesis.json"), "--data-dir", relayDir}, relayArgs...)...)
	record := awaitRelay(t, full, chiveEth, relayDir)
	for i, g := range []*geth{full, empty} {
		cmd := exec.Command(chiveEth, "sidecar", "--ipc", g.ipc, "--only-onion", "--network", nw.NetworkFile, "--maxpeers", "1",
			"--data-dir", filepath.Join(dir, fmt.Sprint("sidecar", i)), "--static", record)
		sidecar(cmd, g)
		says(t, runAs(t, cmd), "private")
	}
	// alone checks that a geth has the relay as its only peer.
	alone := func(g *geth) func(context.Context) bool {
		return func(ctx context.Context) bool {
			names, err := g.peers(ctx)
			if named(names, "Geth/") || len(names) > 1 {
				t.Fatalf("peers beside the relay: %q", names)
			}
			return err == nil && named(names, "chive-eth")
		}
	}
	full.await(t, "the relay as a peer", alone(full))
	empty.await(t, "the relay as a peer", alone(empty))
	began := time.Now()
	empty.newest(t)
	empty.await(t, "all blocks", func(ctx context.Context) bool {
		alone(empty)(ctx)
		return empty.forkchoice(t) == "VALID"
	})
	s, err := status(t.Context(), chiveEth, relayDir)
	if err != nil {
		t.Fatal(err)
	}
	if s.Node.Passed["headers"] == 0 || s.Node.Passed["bodies"] == 0 {
		t.Errorf("the blocks did not come through the relay: %v", s.Node.Passed)
	}
	t.Logf("all blocks came in %v; the relay passed on %v", time.Since(began).Round(time.Millisecond), s.Node.Passed)
	send(t, full, empty)
	if s, err = status(t.Context(), chiveEth, relayDir); err != nil || s.Node.Accepted == 0 {
		t.Errorf("the transaction did not come through the relay: %+v, %v", s, err)
	}
	alone(full)(t.Context())
	alone(empty)(t.Context())
}

// TestRelayBetween: the relay, and both sidecars, have Chive's client in them.
func TestRelayBetween(t *testing.T) {
	gethtest.Program(t, "geth")
	nw := startLab(t, lab.Options{})
	between(t, nw, func(*exec.Cmd, *geth) {}, "--network", nw.NetworkFile)
}

// TestRelayBetweenTor is TestRelayBetween with a relay that uses a stock tor daemon
// (--tor-proxy): its onion is the daemon's.
func TestRelayBetweenTor(t *testing.T) {
	gethtest.Program(t, "geth")
	nw, daemon := withStockTor(t)
	between(t, nw, func(*exec.Cmd, *geth) {}, "--tor-proxy", daemon.SOCKS, "--tor-control", daemon.Control)
}
