package interop

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/devp2p/internal/gethtest"
	"github.com/chivenet/chive/lab"
)

// between puts a chive-eth relay strictly between two stock geths: each has a sidecar that
// may connect it to one onion, which is the relay's. An empty geth gets all blocks of the
// other, and a transaction of each arrives at the other. sidecar changes how the sidecars
// are run, and gets the onion of each when it is open; relayArgs are how the relay reaches onions.
func between(t *testing.T, nw *lab.Network, sidecar func(*exec.Cmd, *geth) (opened func(onion string)), relayArgs ...string) {
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
		opened := sidecar(cmd, g)
		opened(open(t, runAs(t, cmd)))
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

// plainly runs the sidecars as they are.
func plainly(*exec.Cmd, *geth) func(string) { return func(string) {} }

// open waits until a sidecar has an onion before a node that shows nothing, and returns the onion. The two lines come in
// any order.
func open(t *testing.T, lines <-chan string) (onion string) {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	for private := false; !private || onion == ""; {
		select {
		case l := <-lines:
			private = private || l == "private"
			if rest, ok := strings.CutPrefix(l, "onion "); ok {
				onion = rest
			}
		case <-timeout:
			t.Fatalf("private: %v, onion: %q, in two minutes", private, onion)
		}
	}
	return onion
}

// TestRelayBetween: the relay, and both sidecars, have Chive's client in them.
func TestRelayBetween(t *testing.T) {
	gethtest.Program(t, "geth")
	nw := startLab(t, lab.Options{})
	between(t, nw, plainly, "--network", nw.NetworkFile)
}

// TestRelayBetweenTor is TestRelayBetween with a relay that uses a stock tor daemon
// (--tor-proxy): its onion is the daemon's.
func TestRelayBetweenTor(t *testing.T) {
	gethtest.Program(t, "geth")
	nw, daemon := withStockTor(t)
	between(t, nw, plainly, "--tor-proxy", daemon.SOCKS, "--tor-control", daemon.Control)
}
