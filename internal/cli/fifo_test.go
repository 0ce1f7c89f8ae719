//go:build unix

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
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
		"import":  {[]string{"config", "import"}, exitFailed},
		"get":     {[]string{"get", "http://127.0.0.1:1/"}, exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			pipe := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			args := append(c.args, "--config", pipe)
			if c.args[0] == "config" && c.args[1] == "import" {
				args = append(c.args, pipe)
			}
			p := chiveCommand(args...)
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

// TestSecondSignal: where the first signal does not end a command, the second does: it waits
// for a file that is a pipe to which nobody writes.
func TestSecondSignal(t *testing.T) {
	for name, args := range map[string][]string{
		"a relay's key": {"relay", "--orport", "127.0.0.1:1", "--address", "192.0.2.1:1", "--data-dir", "DIR"},
		"a passphrase":  {"keys", "certify", "DIR", "--passphrase-file", "PIPE"},
		"a key of FTE":  {"fte", "--mode", "server", "--protocol", "chive", "--key-file", "PIPE"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			pipe := filepath.Join(dir, "keys", "secret_id_key")
			if err := os.Mkdir(filepath.Dir(pipe), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			for i := range args {
				args[i] = strings.NewReplacer("DIR", dir, "PIPE", pipe).Replace(args[i])
			}
			p := chiveCommand(args...)
			var out bytes.Buffer
			p.Stderr = &out
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- p.Wait() }()
			await(t, "it reads", func() bool {
				w, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
				if err == nil {
					t.Cleanup(func() { w.Close() })
				}
				select {
				case err := <-ended:
					t.Fatalf("it ended before: %v\n%s", err, out.String())
				default:
				}
				return err == nil
			})
			for range 2 {
				p.Process.Signal(syscall.SIGINT)
				select {
				case <-ended: // the first one may be enough
					return
				case <-time.After(maxCut / 3):
				}
			}
			select {
			case <-ended:
			case <-time.After(daemonTime):
				p.Process.Kill()
				t.Errorf("two signals did not end it: %v\n%s", <-ended, out.String())
			}
		})
	}
}
