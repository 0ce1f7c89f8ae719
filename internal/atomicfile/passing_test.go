package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPassing: Write waits for the disk, but not below a folder whose files pass, until the last one who said so ends it.
func TestPassing(t *testing.T) {
	dir := t.TempDir()
	below := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "ab"), 0o700); err != nil {
		t.Fatal(err)
	}
	defer func(f func(*os.File) error) { syncFile = f }(syncFile)
	synced := 0
	syncFile = func(*os.File) error { synced++; return nil }
	check := func(name string, want int) {
		t.Helper()
		synced = 0
		path := filepath.Join(dir, name)
		if err := Write(path, []byte("text"), Secret); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "text" {
			t.Fatalf("%q, %v", b, err)
		}
		if synced != want {
			t.Errorf("%s: %d waits for the disk; want %d", name, synced, want)
		}
	}
	check("a/f", 1)
	var ends []func()
	for range 2 {
		end, err := Passing(filepath.Join(dir, "a"))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	check("a/f", 0)
	check("a/b/f", 0)
	check("ab/f", 1)
	check("f", 1)
	ends[0]()
	ends[0]() // once is enough
	check("a/b/f", 0)
	ends[1]()
	check("a/b/f", 1)
}
