//go:build unix

package atomicfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestWhatIsNoFile: a pipe is written to, and stays one; so does a link to a file.
func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, link, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		b, err := os.ReadFile(pipe)
		if err != nil {
			t.Error(err)
		}
		got <- string(b)
	}()
	if err := Write(pipe, []byte("report"), Report); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "report" {
		t.Fatalf("%q came through the pipe", s)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Fatal("the pipe is gone:", info, err)
	}

	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := Write(link, []byte("new"), Secret); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "new" {
		t.Fatalf("%q, %v", b, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Fatal("the link is gone:", info, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Fatal(left, err)
	}
}

// TestReadIsBounded: of a device, no more is read than wanted; and what is too
// large by its own account is not read at all.
func TestReadIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		most int
		good bool
	}{{file, 5, true}, {file, 4, false}, {"/dev/zero", 100, false}, {"/dev/null", 0, true}, {t.TempDir(), 100, false}, {file + "x", 100, false}} {
		b, err := Read(c.path, c.most)
		if (err == nil) != c.good || len(b) > c.most || c.path == file && c.good && string(b) != "12345" {
			t.Errorf("%+v: %q, %v", c, b, err)
		}
		if err != nil && !strings.Contains(err.Error(), c.path) {
			t.Errorf("the error does not name the file: %v", err)
		}
	}
}
