//go:build unix

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadRegular: a pipe that nobody writes to is refused at once; a link to a file is
// as good as the file.
func TestReadRegular(t *testing.T) {
	dir := t.TempDir()
	pipe, link, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte("12345"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link} {
		if b, err := ReadRegular(path, 5); err != nil || string(b) != "12345" {
			t.Errorf("%q %v", b, err)
		}
		if _, err := ReadRegular(path, 4); err == nil || !strings.Contains(err.Error(), file[:len(dir)]) {
			t.Errorf("a file that is too long: %v", err)
		}
	}
	for _, path := range []string{pipe, dir, os.DevNull} {
		if _, err := ReadRegular(path, 5); !errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := ReadRegular(file+"2", 5); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
