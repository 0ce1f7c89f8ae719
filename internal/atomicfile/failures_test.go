package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestNoPartInPlace: when not all of the new content could be written, the old file stays,
// whatever its mode, and whether it has to last or not.
func TestNoPartInPlace(t *testing.T) {
	broken := fault.New(fault.Network, "the peer went away")
	part := func(w io.Writer) error {
		if _, err := io.WriteString(w, "a part"); err != nil {
			return err
		}
		return broken
	}
	for _, mode := range []os.FileMode{Secret, Report} {
		for _, lasting := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "f")
			if err := Write(path, []byte("old"), mode); err != nil {
				t.Fatal(err)
			}
			if err := replace(path, mode, lasting, part); err != broken {
				t.Errorf("mode %v, lasting: %v: %v", mode, lasting, err)
			}
			want(t, path, "old", mode)
		}
	}
}

// TestOnDiskBeforeItsName: what Write writes is on the disk before it has its name; if the
// disk fails, the old file stays. Fill does not wait for the disk.
func TestOnDiskBeforeItsName(t *testing.T) {
	defer func(f func(*os.File) error) { syncFile = f }(syncFile)
	path := filepath.Join(t.TempDir(), "f")
	synced, failing := 0, error(nil)
	syncFile = func(f *os.File) error {
		synced++
		if b, err := os.ReadFile(f.Name()); err != nil || string(b) != "new" {
			t.Errorf("%q is synced, %v", b, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
			t.Errorf("the name has %q before, %v", b, err)
		}
		return failing
	}
	fill := func(w io.Writer) error { _, err := io.WriteString(w, "old"); return err }
	if err := Fill(path, Secret, fill); err != nil || synced != 0 {
		t.Fatalf("Fill: %v, synced %d times", err, synced)
	}
	failing = errors.New("the disk is full")
	if err := Write(path, []byte("new"), Secret); !errors.Is(err, failing) || !fault.Is(err, fault.Local) || synced != 1 {
		t.Errorf("a full disk: %v, synced %d times", err, synced)
	}
	want(t, path, "old", Secret)
	failing = nil
	if err := Write(path, []byte("new"), Secret); err != nil || synced != 2 {
		t.Errorf("%v, synced %d times", err, synced)
	}
	want(t, path, "new", Secret)
}
