package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/chivenet/chive/chivelab/internal/deploy"
	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/namespace"
)

// inventory is one of seven nodes with few circuits.
func inventory(circuits int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "circuits = %d\n[[link]]\nname = \"radio\"\nrate = \"100 Mbit/s\"\ndelay = \"1ms\"\n", circuits)
	for i, r := range deploy.Roles {
		fmt.Fprintf(&b, "[[node]]\nrole = %q\naddress = \"10.29.0.%d\"\nlink = \"radio\"\n", r, i+1)
	}
	return b.String()
}

// TestDeployNamespaces: seven namespaces build all circuits with each handshake, the results are there, and nothing else.
func TestDeployNamespaces(t *testing.T) {
	tmp, out := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	exe, err := exec.LookPath("chivelab")
	if err != nil {
		t.Fatal(err)
	}
	inv, err := deploy.Parse("seven.toml", []byte(inventory(2)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := deploy.InNamespaces(t.Context(), inv, []string{exe}, out, func(s string) { t.Log(s) })
	switch {
	case errors.Is(err, namespace.ErrDenied):
		t.Skip("SKIPPED, NOTHING WAS TESTED:", err)
	case errors.Is(err, links.ErrLate): // of times, which are not tested here
		t.Log(err)
	case err != nil:
		t.Fatal(err)
	}
	if !r.Complete() || len(r.Handshakes) != 4 || r.Handshakes[3].Measures["total"].N != 2 || !strings.Contains(r.Table(), "2 of 2") {
		t.Errorf("%s", r.Table())
	}
	if rows := readCSV(t, filepath.Join(out, deploy.SamplesName)); len(rows) != 1+4*2 {
		t.Errorf("%d rows of samples", len(rows))
	}
	up := map[string]bool{}
	for _, row := range readCSV(t, filepath.Join(out, deploy.MetricsName)) {
		if row[2] == "up" && row[3] == "1" {
			up[row[1]] = true
		}
	}
	if len(up) != 6 {
		t.Errorf("the monitor saw %v", up)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Error("what is left:", left, err)
	}
}

func readCSV(t *testing.T, name string) [][]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestDeployKilled: of a run that is killed no process stays, and clean finds its files, but not those of a run that
// goes on.
func TestDeployKilled(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	file := filepath.Join(t.TempDir(), "seven.toml")
	if err := os.WriteFile(file, []byte(inventory(100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("chivelab", "deploy", file, "--out", t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := new(strings.Builder)
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for lines := bufio.NewScanner(out); ; {
		if !lines.Scan() {
			io.Copy(io.Discard, out)
			cmd.Wait()
			if strings.Contains(stderr.String(), namespace.ErrDenied.Error()) {
				t.Skip("SKIPPED, NOTHING WAS TESTED:", stderr)
			}
			t.Fatal("it ended: ", stderr)
		}
		if strings.Contains(lines.Text(), "ready") {
			break
		}
	}
	if removed, err := deploy.Clean(t.Context()); err != nil || len(removed) > 0 {
		t.Error("of a run that goes on, clean removes", removed, err)
	}
	ends := below(t, cmd.Process.Pid)
	if len(ends) < 2*6 { // an init and a program in each namespace
		t.Errorf("%d processes", len(ends))
	}
	cmd.Process.Kill()
	cmd.Wait()
	for _, fd := range ends { // the test's time bounds it
		awaitEnd(t, fd)
	}
	removed, err := deploy.Clean(t.Context())
	if err != nil || len(removed) != 1 {
		t.Error("clean removes", removed, err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Error("what is left:", left, err)
	}
}

// below returns descriptors of the processes below one.
func below(t *testing.T, pid int) (out []int) {
	for pids := []int{pid}; len(pids) > 0; pids = pids[1:] {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[0]))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range tasks {
			b, _ := os.ReadFile(name) // the thread may have ended
			for _, f := range strings.Fields(string(b)) {
				child, err := strconv.Atoi(f)
				if err != nil {
					t.Fatal(err)
				}
				fd, err := unix.PidfdOpen(child, 0)
				if err != nil {
					continue // it has ended
				}
				t.Cleanup(func() { unix.Close(fd) })
				out, pids = append(out, fd), append(pids, child)
			}
		}
	}
	return out
}

func awaitEnd(t *testing.T, fd int) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		if n, err := unix.Poll(fds, -1); n > 0 {
			return
		} else if err != unix.EINTR {
			t.Fatal(err)
		}
	}
}

// TestDeployEnded: a run that is told to end leaves nothing.
func TestDeployEnded(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	exe, err := exec.LookPath("chivelab")
	if err != nil {
		t.Fatal(err)
	}
	inv, err := deploy.Parse("seven.toml", []byte(inventory(1)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err = deploy.InNamespaces(ctx, inv, []string{exe}, t.TempDir(), func(s string) {
		if strings.Contains(s, "start") {
			cancel()
		}
	})
	if errors.Is(err, namespace.ErrDenied) {
		t.Skip("SKIPPED, NOTHING WAS TESTED:", err)
	}
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Error("what is left:", left, err)
	}
}
