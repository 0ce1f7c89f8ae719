//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestMain runs the program itself if it is called so.
func TestMain(m *testing.M) {
	if os.Args[0] == "chive-eth" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestHangup: a terminal that closes ends the demonstration as Ctrl-C does: no file stays behind.
func TestHangup(t *testing.T) {
	if testing.Short() {
		t.Skip("short: no network")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Args, cmd.Env = []string{"chive-eth", "demo"}, append(os.Environ(), "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(out).Scan() { // the network runs
		t.Error("it says nothing")
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Error(err)
	}
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v behind (%v)", left, err)
	}
}
