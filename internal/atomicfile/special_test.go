//go:build unix

package atomicfile

import (
	"os"
	"path/filepath"
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
