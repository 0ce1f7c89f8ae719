//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestSilentPipe: a signal ends a command that waits for its configuration file, which is a
// pipe to which nobody writes.
func TestSilentPipe(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"a node":  {[]string{"proxy", "--socks", "0", "--data-dir", t.TempDir()}, 0},
		"a check": {[]string{"config", "check"}, exitFailed},
		"get":     {[]string{"get", "http://127.0.0.1:1/"}, exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			pipe := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			p := chiveCommand(append(c.args, "--config", pipe)...)
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			killed := false
			watchdog := time.AfterFunc(daemonTime, func() { killed = true; p.Process.Kill() })
			defer watchdog.Stop()
			await(t, "it reads", func() bool {
				w, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0) // an error until somebody reads
				if err == nil {
					t.Cleanup(func() { w.Close() })
				}
				return err == nil
			})
			if err := p.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			p.Wait()
			if got := p.ProcessState.ExitCode(); got != c.code || killed {
				t.Errorf("exit code %d, want %d (killed: %v)", got, c.code, killed)
			}
		})
	}
}
