//go:build unix

package daemon

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
)

// TestLogFile: the log goes to the file, of which only the owner can read a new one; after
// it was renamed, SIGHUP makes the next one.
func TestLogFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	r := run(t, web(t), "--log-file", path)
	r.port(t, "socks")
	r.bootstrap(chive.BootstrapStatus{Ready: true})
	if l := r.line(t); l != "ready" {
		t.Fatal(l)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	r.hangup <- syscall.SIGHUP
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("the new file: %v, %v", st, err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "msg=reloaded") || !strings.Contains(string(text), "stopping: nothing new") {
		t.Errorf("the new file: %v: %s", err, text)
	}
	if old, err := os.ReadFile(path + ".1"); err != nil || strings.Contains(string(old), "reloaded") {
		t.Errorf("the old file: %v: %s", err, old)
	}
	if got := r.log.String(); got != "" {
		t.Errorf("standard error: %s", got)
	}
}

// TestLogFileStays: a file that cannot be opened again leaves the old one in use, and the
// log says so.
func TestLogFileStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r := run(t, web(t), "--log-file", filepath.Join(dir, "log"))
	r.port(t, "socks")
	r.bootstrap(chive.BootstrapStatus{Ready: true})
	r.line(t)
	moved := dir + "-moved"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	r.hangup <- syscall.SIGHUP
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
	text, err := os.ReadFile(filepath.Join(moved, "log"))
	if err != nil || !strings.Contains(string(text), "the log goes on into the file that was open") || !strings.Contains(string(text), "stopping: nothing new") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestLogFileAppends: lines that a file has stay.
func TestLogFileAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for range 2 {
		w, f, err := openLog(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, "a line\n"); err != nil || f.close() != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "a line\na line\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestLogFileMistake names the option, and nothing starts.
func TestLogFileMistake(t *testing.T) {
	s, err := parse(t, "log-file = \"/no such directory/log\"", "--data-dir", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Settings: s, Out: io.Discard, Err: io.Discard}
	err = p.Run(t.Context())
	if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "f:1: log-file: open ") {
		t.Errorf("%v", err)
	}
	if _, err := s.ClientConfig(io.Discard); err == nil || !strings.Contains(err.Error(), "log-file") {
		t.Errorf("a command: %v", err)
	}
}
