package role

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestDir: one node at a time uses a data directory, and its owner alone sees it.
func TestDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "node")
	d, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o700 {
		t.Error(st.Mode(), err)
	}
	_, err = OpenDir(path)
	if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another directory") {
		t.Errorf("the second node: %v; want the directory and what to do", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenDir(path)
	if err != nil {
		t.Fatal("after Close:", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if err := (*Dir)(nil).Close(); err != nil {
		t.Error("a node without a directory:", err)
	}
}

// TestServiceDir: one program at a time hosts an onion service.
func TestServiceDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop")
	d, err := OpenServiceDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenServiceDir(path); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "hosts this service") {
		t.Errorf("the second program: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = OpenServiceDir(path); err != nil {
		t.Fatal("after Close:", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := new(Dir).Close(); err != nil {
		t.Error("a directory without a lock:", err)
	}
}

// TestDirImpossible: the error names what stands where the directory should be.
func TestDirImpossible(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDir(file); !fault.Is(err, fault.Local) || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDir(dir); !fault.Is(err, fault.Local) || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
}
