package relay

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
)

// keyFiles reads a directory of keys.
func keyFiles(t *testing.T, dataDir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	entries, err := os.ReadDir(filepath.Join(dataDir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if out[e.Name()], err = os.ReadFile(filepath.Join(dataDir, "keys", e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestCrashWhileRenewing: a process that is killed between two writes of a
// renewal, or during one, starts again with its identity and with the onion key
// that clients know.
func TestCrashWhileRenewing(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	now := time.Now()
	dir := t.TempDir()
	k, err := LoadKeys(dir, now, log)
	if err != nil {
		t.Fatal(err)
	}
	id, known := k.ID, k.Onion()[0].Public()
	before := keyFiles(t, dir)
	later := now.Add(rotationDays*24*time.Hour + time.Hour)
	if changed, err := k.Renew(later, rotationDays*24*time.Hour, graceDays*24*time.Hour); err != nil || !changed {
		t.Fatal(changed, err)
	}
	after := keyFiles(t, dir)
	// The order in which the files are replaced.
	written := []string{fileSigning, fileSigningCert, fileOnionOld, fileOnion}
	for name, b := range after {
		if changed := !bytes.Equal(b, before[name]); changed != slices.Contains(written, name) {
			t.Fatalf("%s: changed: %v", name, changed)
		}
	}
	for done := range len(written) + 1 {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "keys"), 0o700); err != nil {
			t.Fatal(err)
		}
		put := func(name string, b []byte) {
			if err := os.WriteFile(filepath.Join(dir, "keys", name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for name, b := range before {
			put(name, b)
		}
		for _, name := range written[:done] {
			put(name, after[name])
		}
		if made := filepath.Join(dir, "keys", fileOnion); done == len(written) {
			err = os.Chtimes(made, later, later) // otherwise it would be too old again
		} else {
			err = os.Chtimes(made, now, now)
		}
		if err != nil {
			t.Fatal(err)
		}
		if done < len(written) {
			name := written[done]
			put("."+name+".123456.tmp", after[name][:len(after[name])/2])
		}
		again, err := LoadKeys(dir, later, log)
		if err != nil {
			t.Errorf("killed after %d files: %v", done, err)
			continue
		}
		if again.ID != id {
			t.Errorf("killed after %d files: another identity", done)
		}
		var honoured []ident.X25519Key
		for _, p := range again.Onion() {
			honoured = append(honoured, p.Public())
		}
		if !slices.Contains(honoured, known) {
			t.Errorf("killed after %d files: the onion key that clients know is not honoured", done)
		}
		for name := range keyFiles(t, dir) {
			if name[0] == '.' {
				t.Errorf("killed after %d files: %s stays", done, name)
			}
		}
	}
}

// TestRenewOnFullDisk: keys that cannot be written are not used; the old ones
// stay in use, and the next attempt works.
func TestRenewOnFullDisk(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	now := time.Now()
	dir := t.TempDir()
	k, err := LoadKeys(dir, now, log)
	if err != nil {
		t.Fatal(err)
	}
	known := k.Onion()[0].Public()
	// A missing directory has the same effect as a full disk, and works on every
	// machine.
	keys, aside := filepath.Join(dir, "keys"), filepath.Join(dir, "aside")
	if err := os.Rename(keys, aside); err != nil {
		t.Fatal(err)
	}
	later := now.Add(rotationDays*24*time.Hour + time.Hour)
	if changed, err := k.Renew(later, rotationDays*24*time.Hour, graceDays*24*time.Hour); err == nil {
		t.Fatal("it was renewed:", changed)
	}
	if got := k.Onion(); len(got) != 1 || got[0].Public() != known || k.Link() == nil {
		t.Error("the keys in use changed")
	}
	if err := os.Rename(aside, keys); err != nil {
		t.Fatal(err)
	}
	if changed, err := k.Renew(later, rotationDays*24*time.Hour, graceDays*24*time.Hour); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if got := k.Onion(); len(got) != 2 || got[1].Public() != known {
		t.Error("the old onion key is not honoured")
	}
}
