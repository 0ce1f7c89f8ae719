package role

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestCheckDir: it agrees with OpenDir, and leaves nothing.
func TestCheckDir(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, ok := range map[string]bool{base: true, filepath.Join(base, "a", "b"): true, file: false, filepath.Join(file, "a"): false} {
		if err := CheckDir(path); (err == nil) != ok || err != nil && !fault.Is(err, fault.Config) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if runtime.GOOS != "windows" && os.Getuid() != 0 { // root may write everywhere
		closed := filepath.Join(base, "closed")
		if err := os.Mkdir(closed, 0o500); err != nil {
			t.Fatal(err)
		}
		if err := CheckDir(filepath.Join(closed, "a")); !fault.Is(err, fault.Config) {
			t.Error(err)
		}
		os.Remove(closed)
	}
	if left, err := os.ReadDir(base); err != nil || len(left) != 1 {
		t.Error(left, err)
	}
}
