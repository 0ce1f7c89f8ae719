//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// chivelab returns a command that runs this program as chivelab (see TestMain), with a directory
// of its own for temporary files, which must be empty at the end.
func chivelab(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Args = append([]string{"chivelab"}, append(args, "--authorities", "1", "--relays", "3", "--exits", "1")...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Stderr = os.Stderr
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("it leaves %v behind (%v)", left, err)
		}
	})
	return cmd
}

// TestHangup: a terminal that closes ends a laboratory as Ctrl-C does: nothing stays behind.
func TestHangup(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored here, as nohup(1) has it, and so it is in what a test starts")
	}
	cmd := chivelab(t, "up")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := false
	for s := bufio.NewScanner(out); !ready && s.Scan(); {
		ready = s.Text() == "ready"
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil || !ready {
		t.Errorf("ready: %v, %v", ready, err)
	}
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestNoReader: a program that reads the output and ends first does not end a laboratory before
// it has put everything away.
func TestNoReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	cmd := chivelab(t, "run")
	cmd.Stdout = w
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}

// TestInterruptedCommand: chivelab run ends as its command does, also when that was told to end.
func TestInterruptedCommand(t *testing.T) {
	for script, want := range map[string]int{
		`trap "exit 0" INT; echo ready; while :; do sleep 0.1; done`: 0,
		`trap "exit 7" INT; echo ready; while :; do sleep 0.1; done`: 7,
	} {
		cmd := chivelab(t, "run")
		cmd.Args = append(cmd.Args, "--", "sh", "-c", script)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if s := bufio.NewScanner(out); !s.Scan() || s.Text() != "ready" {
			t.Errorf("it said %q", s.Text())
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		io.Copy(io.Discard, out)
		cmd.Wait() // the state says it all
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("exit code %d, not %d", got, want)
		}
	}
}
