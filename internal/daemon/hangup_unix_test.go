//go:build unix

package daemon

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive"
)

// until waits until the log has a text n times.
func (r *running) until(t *testing.T, text string, n int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); strings.Count(r.log.String(), text) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log does not have %q %d times:\n%s", text, n, r.log)
		}
	}
}

// TestHangupWithPipe: a pipe that nobody writes to, in place of the configuration file,
// does not stop the process: the settings of the start stay.
func TestHangupWithPipe(t *testing.T) {
	r := run(t, web(t))
	r.port(t, "socks")
	r.bootstrap(chive.BootstrapStatus{Ready: true})
	if l := r.line(t); l != "ready" {
		t.Fatal(l)
	}
	if err := errors.Join(os.Remove(r.config), syscall.Mkfifo(r.config, 0o600)); err != nil {
		t.Fatal(err)
	}
	r.hangup <- syscall.SIGHUP
	r.until(t, "reloaded", 1)
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
}

// TestHangupTellsAMistakeOnce: the log has a wrong value once, however often the file is
// read again.
func TestHangupTellsAMistakeOnce(t *testing.T) {
	r := run(t, web(t))
	r.port(t, "socks")
	r.bootstrap(chive.BootstrapStatus{Ready: true})
	r.line(t)
	hangup := func(file, text string, n int) {
		t.Helper()
		if err := os.WriteFile(r.config, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		r.hangup <- syscall.SIGHUP
		r.until(t, text, n)
	}
	hangup("num-entry-guards = 99", "99 is not from 0 to 20", 1)
	hangup("num-entry-guards = 99", "same as before", 1)
	hangup("num-entry-guards = 98", "98 is not from 0 to 20", 1)
	hangup("num-entry-guards = 9", "take effect at the next start", 1)
	hangup("num-entry-guards = 9", "msg=reloaded ", 2)
	hangup("num-entry-guards = 99", "99 is not from 0 to 20", 2)
	if log := r.log.String(); strings.Count(log, "99 is not") != 2 || strings.Count(log, "next start") != 1 {
		t.Errorf("the log:\n%s", log)
	}
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
}

// TestLogToPipe: a pipe that nobody reads is refused, and does not hold up the process.
func TestLogToPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	_, l, err := openLog(path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := l.reopen(); !errors.Is(err, syscall.ENXIO) {
		t.Error(err)
	}
	if _, err := l.Write([]byte("line\n")); err != nil {
		t.Errorf("the file that was open: %v", err)
	}
}
