package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// lines starts a program, and returns its lines as they come.
func (r *execRig) lines(t *testing.T, ctx context.Context, args ...string) (*exec.Cmd, func() string) {
	t.Helper()
	cmd := r.command(ctx, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = new(bytes.Buffer)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, func() string {
		var line []byte
		for b := make([]byte, 1); ; {
			if _, err := io.ReadFull(out, b); err != nil {
				return string(line) + " (" + err.Error() + ")"
			}
			if b[0] == '\n' {
				return string(line)
			}
			line = append(line, b[0])
		}
	}
}

// execSignals: a signal to chive reaches the program, once; and the program's processes end with
// the program, and with chive.
func execSignals(t *testing.T, r *execRig) {
	ctx, cancel := context.WithTimeout(t.Context(), execPatience)
	defer cancel()
	cmd, line := r.lines(t, ctx, "sh", "-c", `trap 'echo told; exit 5' TERM; echo here; while :; do sleep 0.1; done`)
	if l := line(); l != "here" {
		t.Fatal(l, cmd.Stderr)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if l := line(); l != "told" {
		t.Error(l)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 5 {
		t.Error(err)
	}
	// What is sent to the whole group is not sent on.
	cmd = r.command(ctx, "sh", "-c", `n=0; trap 'n=$((n+1))' USR1; echo here; i=0; while [ $i -lt 20 ]; do sleep 0.1; i=$((i+1)); done; echo $n`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(-cmd.Process.Pid, syscall.SIGUSR1)
	if rest, err := io.ReadAll(out); err != nil || string(rest) != "1\n" {
		t.Errorf("a signal to the group came %q times, %v", rest, err)
	}
	cmd.Wait()

	// A process that the program leaves holds a pipe open; so we see its end.
	for _, how := range []string{"program", "chive"} {
		fifo := filepath.Join(t.TempDir(), "fifo")
		if err := unix.Mkfifo(fifo, 0o666); err != nil {
			t.Fatal(err)
		}
		reading := make(chan error, 1)
		go func() {
			_, err := os.ReadFile(fifo) // until the last writer ends
			reading <- err
		}()
		last := "exit 0"
		if how == "chive" {
			last = "sleep 1000"
		}
		cmd, line := r.lines(t, ctx, "sh", "-c", `(exec sleep 1000 > "$0" 1> "$0") & exec 9> "$0"; exec 9>&-; echo here; `+last, fifo)
		if l := line(); l != "here" {
			t.Fatal(l, cmd.Stderr)
		}
		if how == "chive" {
			cmd.Process.Kill()
		}
		select {
		case err := <-reading:
			if err != nil {
				t.Error(err)
			}
		case <-ctx.Done():
			t.Errorf("a process outlives the %s", how)
		}
		cmd.Wait()
	}
}
