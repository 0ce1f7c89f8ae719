package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

func want(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != text {
		t.Fatalf("%q, %v; want %q", b, err, text)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != mode {
		t.Fatalf("mode %v; want %v", info.Mode(), mode)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Fatalf("%v beside the file: %v", left, err)
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, x := range []struct {
		text string
		mode fs.FileMode
	}{{"first", Secret}, {"", Report}, {"third", Secret}} {
		if err := Write(path, []byte(x.text), x.mode); err != nil {
			t.Fatal(err)
		}
		want(t, path, x.text, x.mode)
	}
}

// TestWriteJSON: a value is written for people, and one that is none of JSON leaves the old file.
func TestWriteJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := WriteJSON(path, map[string]int{"a": 1}, Report); err != nil {
		t.Fatal(err)
	}
	text := "{\n  \"a\": 1\n}\n"
	want(t, path, text, Report)
	if err := WriteJSON(path, func() {}, Report); !fault.Is(err, fault.Local) {
		t.Error(err)
	}
	want(t, path, text, Report)
}

// TestFailuresLeaveTheOldFile, and nothing beside it.
func TestFailuresLeaveTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := Write(path, []byte("old"), Secret); err != nil {
		t.Fatal(err)
	}
	broken := fault.New(fault.Network, "the peer went away")
	err := Fill(path, Secret, func(w io.Writer) error {
		if _, err := w.Write([]byte("ne")); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) || fault.KindOf(err) != fault.Network {
		t.Fatal(err)
	}
	want(t, path, "old", Secret)
	// A folder stands in the way of the rename, and no folder in that of the
	// new file.
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.MkdirAll(filepath.Join(folder, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, filepath.Join(folder, "none", "f")} {
		if err := Write(path, []byte("x"), Secret); !fault.Is(err, fault.Local) {
			t.Fatalf("%s: %v", path, err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(folder)); err != nil || len(left) != 1 {
		t.Fatalf("%v is left: %v", left, err)
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f[1]")
	if err := Write(path, []byte("kept"), Secret); err != nil {
		t.Fatal(err)
	}
	// A process that ends while it writes.
	panicked := func() (was any) {
		defer func() { was = recover() }()
		return Fill(path, Secret, func(io.Writer) error { panic("killed") })
	}()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 || panicked != "killed" {
		t.Fatal(left, err, panicked)
	}
	if err := Sweep(dir); err != nil {
		t.Fatal(err)
	}
	want(t, path, "kept", Secret)
	if err := Sweep(filepath.Join(dir, "none")); !fault.Is(err, fault.Local) {
		t.Fatal(err)
	}
}

func TestExposed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing of access on Windows")
	}
	for _, c := range []struct {
		folder, file os.FileMode
		want         string // space-separated
	}{
		{0o700, 0o666, ""}, {0o755, 0o600, ""}, {0o755, 0o644, "key"}, {0o750, 0o640, "key"}, {0o755, 0o622, "key"},
		{0o777, 0o600, "."}, {0o770, 0o666, ". key"},
	} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "key"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chmod(filepath.Join(folder, "key"), c.file), os.Chmod(folder, c.folder)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range Exposed(folder, "absent", "key") {
			rel, err := filepath.Rel(folder, p)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rel)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("folder %v, file %v: %q, want %q", c.folder, c.file, s, c.want)
		}
	}
	if got := Exposed(filepath.Join(t.TempDir(), "absent"), "key"); got != nil {
		t.Error(got)
	}
}
