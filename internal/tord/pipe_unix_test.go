//go:build unix

package tord

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFilesThatArePipes: a pipe in place of a file for controllers neither holds the program up nor
// is removed.
func TestFilesThatArePipes(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for option, code := range map[string]int{"ControlPortWriteToFile": 0, "CookieAuthFile": 1, "PidFile": 1} {
		r := start(t, deadNetwork+"DisableNetwork 1\n", "--ControlPort", "auto", "--CookieAuthentication", "1", "--"+option, pipe)
		r.out.wait(t, "it is no regular file")
		if code == 0 {
			r.out.wait(t, `Control listener listening on port`)
			r.signals <- syscall.SIGTERM
		}
		if got := <-r.code; got != code {
			t.Errorf("%s: it ended with %d, not %d", option, got, code)
		}
		if st, err := os.Lstat(pipe); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
			t.Errorf("%s: the pipe is gone: %v", option, err)
		}
	}
}
