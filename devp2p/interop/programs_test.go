package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/devp2p/internal/gethtest"
	"github.com/chivenet/chive/lab"
)

// run starts a program that the test ends, and returns the lines that it prints.
func run(t *testing.T, path string, args ...string) <-chan string {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1000) // the programs say little
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case lines <- s.Text():
			default:
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s %s: %v", filepath.Base(path), args[0], err)
		}
	})
	return lines
}

// says waits for a line with a beginning, and returns the rest of it.
func says(t *testing.T, lines <-chan string, prefix string) string {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		select {
		case l := <-lines:
			if rest, ok := strings.CutPrefix(l, prefix); ok {
				return strings.TrimSpace(rest)
			}
		case <-timeout:
			t.Fatalf("it did not say %q in two minutes", prefix)
		}
	}
}

// TestPrograms does with the programs what users do: two stock geths, each beside chive-eth
// sidecar, know only a chive-eth relay. They get the relay as a peer, and each other; a
// transaction of one arrives at the other, and comes through the relay.
func TestPrograms(t *testing.T) {
	gethtest.Program(t, "geth")
	dir := t.TempDir()
	chiveEth := filepath.Join(dir, "chive-eth")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", chiveEth, "../cmd/chive-eth").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := testdata()
	if err != nil {
		t.Fatal(err)
	}
	nw := startLab(t, lab.Options{})
	a, b := startGeth(t), startGeth(t)
	a.follow(t)
	b.follow(t)

	relayDir := filepath.Join(dir, "relay")
	run(t, chiveEth, "relay", "--network", nw.NetworkFile, "--genesis", filepath.Join(data, "genesis.json"), "--data-dir", relayDir)
	var relay struct {
		Record string
		Node   struct{ Accepted int }
	}
	status := func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, chiveEth, "status", "--json", "--data-dir", relayDir).Output()
		if err == nil {
			err = json.Unmarshal(out, &relay)
		}
		return err
	}
	record := ""
	a.await(t, "the relay's onion", func(ctx context.Context) bool {
		if status(ctx) != nil {
			return false
		}
		record = relay.Record
		return record != "" && hasOnion(record)
	})
	for i, g := range []*geth{a, b} {
		lines := run(t, chiveEth, "sidecar", "--ipc", g.ipc, "--only-onion", "--network", nw.NetworkFile,
			"--data-dir", filepath.Join(dir, fmt.Sprint("sidecar", i)), "--static", record)
		says(t, lines, "private")
	}
	for _, g := range []*geth{a, b} {
		g.await(t, "the relay and the other geth as peers", func(ctx context.Context) bool {
			var list []struct{ Name string }
			if err := g.client.CallContext(ctx, &list, "admin_peers"); err != nil {
				return false
			}
			named := func(prefix string) bool {
				return slices.ContainsFunc(list, func(p struct{ Name string }) bool { return strings.HasPrefix(p.Name, prefix) })
			}
			return named("Geth/") && named("chive-eth")
		})
	}
	send(t, a, b)
	a.await(t, "the transaction at the relay", func(ctx context.Context) bool { return status(ctx) == nil && relay.Node.Accepted > 0 })
}
