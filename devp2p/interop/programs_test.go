package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
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
	return runAs(t, exec.Command(path, args...))
}

// runAs is run for a command that was made already.
func runAs(t *testing.T, cmd *exec.Cmd) <-chan string {
	t.Helper()
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
			t.Errorf("%s: %v", cmd.Args[:2], err)
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

// build makes the program, once for all tests.
func build(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// relayStatus is what chive-eth status says of a relay, as far as tests need it.
type relayStatus struct {
	Record string
	Node   struct {
		Accepted int
		Passed   map[string]int
		Pool     struct{ Count, Mined int }
	}
}

// status asks a relay.
func status(ctx context.Context, chiveEth, dir string) (*relayStatus, error) {
	out, err := exec.CommandContext(ctx, chiveEth, "status", "--json", "--data-dir", dir).Output()
	if err != nil {
		return nil, err
	}
	s := new(relayStatus)
	return s, json.Unmarshal(out, s)
}

// awaitRelay waits for a relay's record, with its onion.
func awaitRelay(t *testing.T, g *geth, chiveEth, dir string) (record string) {
	t.Helper()
	g.await(t, "the relay's onion", func(ctx context.Context) bool {
		s, err := status(ctx, chiveEth, dir)
		if err != nil {
			return false
		}
		record = s.Record
		return record != "" && hasOnion(record)
	})
	return record
}

// peers returns the names of a geth's peers.
func (g *geth) peers(ctx context.Context) (names []string, err error) {
	var list []struct{ Name string }
	err = g.client.CallContext(ctx, &list, "admin_peers")
	for _, p := range list {
		names = append(names, p.Name)
	}
	return names, err
}

// named reports whether a name has a beginning.
func named(names []string, prefix string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, prefix) })
}

// signedList makes a signed list of a record, and returns the flags that name it.
func signedList(t *testing.T, chiveEth, dir, record string) []string {
	t.Helper()
	keyFile, list := filepath.Join(dir, "publisher.key"), filepath.Join(dir, "onions.list")
	key, err := exec.CommandContext(t.Context(), chiveEth, "nodes", "key", keyFile).Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), chiveEth, "nodes", "make", "--key", keyFile, record).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--nodes", list, "--nodes-key", strings.TrimSpace(string(key))}
}

// TestPrograms does with the programs what users do: two stock geths, each beside chive-eth
// sidecar, know only a chive-eth relay, one of them by a signed list. They get the relay as a peer, and each other; a
// transaction of one arrives at the other, and comes through the relay.
func TestPrograms(t *testing.T) {
	gethtest.Program(t, "geth")
	dir := t.TempDir()
	chiveEth := build(t)
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
	record := awaitRelay(t, a, chiveEth, relayDir)
	for i, g := range []*geth{a, b} {
		first := []string{"--static", record}
		if i == 1 {
			first = signedList(t, chiveEth, dir, record)
		}
		lines := run(t, chiveEth, append([]string{"sidecar", "--ipc", g.ipc, "--only-onion", "--network", nw.NetworkFile,
			"--data-dir", filepath.Join(dir, fmt.Sprint("sidecar", i))}, first...)...)
		says(t, lines, "private")
		out, err := exec.CommandContext(t.Context(), chiveEth, "status", "--data-dir", filepath.Join(dir, fmt.Sprint("sidecar", i))).Output()
		if err != nil || !strings.Contains(string(out), "private     yes") {
			t.Errorf("the sidecar's status: %v\n%s", err, out)
		}
	}
	for _, g := range []*geth{a, b} {
		g.await(t, "the relay and the other geth as peers", func(ctx context.Context) bool {
			names, err := g.peers(ctx)
			return err == nil && named(names, "Geth/") && named(names, "chive-eth")
		})
	}
	send(t, a, b)
	a.await(t, "the transaction at the relay", func(ctx context.Context) bool {
		s, err := status(ctx, chiveEth, relayDir)
		return err == nil && s.Node.Accepted > 0
	})
}
