package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/devp2p/internal/gethtest"
	"github.com/chivenet/chive/program"
)

// sidecarDir makes the data directory of a sidecar that has run.
func sidecarDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sidecar.key"), []byte(strings.Repeat("01", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, unlock, err := chive.OpenOnionKey(filepath.Join(dir, "onion"))
	if err == nil {
		err = unlock()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestKeyNew refuses to change keys beside a sidecar that runs, and a sidecar does not start with half of
// a change.
func TestKeyNew(t *testing.T) {
	dir := sidecarDir(t)
	lock, err := program.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chiveEth(t, "key", "new", "--data-dir", dir); !errors.Is(err, program.ErrInUse) {
		t.Errorf("beside a sidecar that runs: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := chiveEth(t, "key", "new", "--data-dir", missing); err == nil || !strings.Contains(err.Error(), "nothing to change") {
		t.Errorf("a directory that is not there: %v", err)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("it was made")
	}
	if err := os.WriteFile(filepath.Join(dir, "new-keys.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"sidecar", "--ipc", "none"}, {"relay"}} {
		if _, err := chiveEth(t, append(args, "--data-dir", dir)...); err == nil || !strings.Contains(err.Error(), "key new") {
			t.Errorf("%v after an interrupted change: %v", args, err)
		}
	}
}

// TestKeyNewGeth: a stock geth that runs keeps its key, and has a new one when it starts again.
func TestKeyNewGeth(t *testing.T) {
	stock, data, dir := gethtest.Program(t, "geth"), t.TempDir(), sidecarDir(t)
	args := []string{"key", "new", "--data-dir", dir, "--geth", data}
	id := func(during func()) string {
		t.Helper()
		cmd := exec.Command(stock, "--datadir", data, "--nodiscover", "--nat", "none", "--netrestrict", "127.0.0.0/8", "--port", "0",
			"--authrpc.port", "0", "--cache", "64", "--verbosity", "3")
		log, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		var info p2p.NodeInfo
		for s := bufio.NewScanner(log); s.Scan(); {
			if !strings.Contains(s.Text(), "IPC endpoint opened") {
				continue
			}
			c, err := rpc.DialIPC(t.Context(), filepath.Join(data, "geth.ipc"))
			if err == nil {
				err = c.CallContext(t.Context(), &info, "admin_nodeInfo")
				c.Close()
			}
			if err != nil {
				t.Error(err)
			}
			during()
			break
		}
		_ = cmd.Process.Kill() // its key and its lock do not need an orderly end
		_ = cmd.Wait()         // "killed"
		return info.ID
	}
	before := id(func() {
		if _, err := chiveEth(t, args...); !errors.Is(err, program.ErrInUse) {
			t.Errorf("beside a geth that runs: %v", err)
		}
	})
	said, err := chiveEth(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	if after := id(func() {}); after == before || after == "" || !strings.Contains(said, "node "+after+"\n") {
		t.Errorf("geth was %s and is %s, and this was told: %s", before, after, said)
	}
}
