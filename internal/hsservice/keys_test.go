package hsservice

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
)

func put(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "service")
	k, err := OpenKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := hscrypto.ParseAddress(k.Address()); err != nil || id != k.ID() {
		t.Errorf("%v %v", id, err)
	}
	for f, size := range map[string]int64{fileSecret: 96, filePublic: 64, fileHostname: 63} {
		st, err := os.Stat(filepath.Join(dir, f))
		if err != nil || st.Size() != size || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, st, err)
		}
	}
	if st, _ := os.Stat(dir); st.Mode().Perm() != 0o700 {
		t.Errorf("%v", st.Mode())
	}
	again, err := OpenKey(dir)
	if err != nil || again.ID() != k.ID() || !bytes.Equal(again.Bytes(), k.Bytes()) {
		t.Fatalf("%v", err)
	}
	// What only helps readers is written again.
	for _, f := range []string{filePublic, fileHostname} {
		if err := os.Remove(filepath.Join(dir, f)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenKey(dir); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, fileHostname)); err != nil || string(b) != k.Address()+"\n" {
		t.Errorf("%q %v", b, err)
	}
}

func TestOpenKeyRefuses(t *testing.T) {
	other, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	otherID := other.ID()
	for name, c := range map[string]struct {
		spoil func(dir string)
		want  string
	}{
		"another service's public key": {func(d string) { put(t, filepath.Join(d, filePublic), tagged(tagPublic, otherID[:])) }, "different services"},
		"a short key":                  {func(d string) { put(t, filepath.Join(d, fileSecret), tagged(tagSecret, make([]byte, 63))) }, "96 bytes"},
		"a wrong tag":                  {func(d string) { put(t, filepath.Join(d, fileSecret), tagged(tagPublic, make([]byte, 64))) }, "begins with"},
		"a huge file":                  {func(d string) { put(t, filepath.Join(d, fileSecret), make([]byte, 1<<20)) }, "more than"},
		"no secret":                    {func(d string) { _ = os.Remove(filepath.Join(d, fileSecret)) }, "bring the key back"},
		"open to others":               {func(d string) { _ = os.Chmod(d, 0o777) }, "chmod go-rwx"},
	} {
		dir := filepath.Join(t.TempDir(), "service")
		if _, err := OpenKey(dir); err != nil {
			t.Fatal(err)
		}
		c.spoil(dir)
		if _, err := OpenKey(dir); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadKey(t.TempDir()); !fault.Is(err, fault.Config) {
		t.Errorf("%v", err)
	}
}

func TestClients(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "service")
	k, err := OpenKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := ReadClients(dir); err != nil || c != nil {
		t.Errorf("%v %v", c, err)
	}
	folder := t.TempDir()
	private := filepath.Join(folder, "alice"+ExtAuthPrivate)
	public, err := AddClient(dir, "alice", "", SavePrivate(private))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(private)
	if want := strings.TrimSuffix(k.Address(), ".onion") + ":" + authPrefix; err != nil || !strings.HasPrefix(string(b), want) || len(b) != len(want)+52+1 {
		t.Errorf("%q %v", b, err)
	}
	for _, p := range []string{public, private} {
		if st, err := os.Stat(p); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", st, err)
		}
	}
	keys, err := ReadClients(dir)
	if err != nil || len(keys) != 1 {
		t.Fatalf("%v %v", keys, err)
	}
	if got, err := ParseClient(FormatClient(keys[0])); err != nil || got != keys[0] {
		t.Errorf("%v %v", got, err)
	}
	// A file with another ending is none of ours; a mistyped one is an error.
	put(t, filepath.Join(dir, dirClients, "notes.txt"), []byte("hello"))
	if keys, err = ReadClients(dir); err != nil || len(keys) != 1 {
		t.Errorf("%v %v", keys, err)
	}
	for _, text := range []string{"", "descriptor:x25519:", "descriptor:x25519:" + strings.Repeat("A", 51), "descriptor:x25519:" + strings.Repeat("A", 52), "x25519:" + strings.Repeat("B", 52)} {
		put(t, filepath.Join(dir, dirClients, "bob.auth"), []byte(text))
		if _, err := ReadClients(dir); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestClientsByMistake: a service for authorized clients does not become public because
// the name of a client's file is wrong.
func TestClientsByMistake(t *testing.T) {
	for _, name := range []string{"alice", "alice.auth.txt", "alice.auth_private", "alice.auth/key"} {
		dir := t.TempDir()
		path := filepath.Join(dir, dirClients, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, path, []byte("descriptor:x25519:N2NU7BSRL6YODZCYPN4CREB54TYLKGIE2KYOQWLFYC23ZJVCE5DQ\n"))
		if keys, err := ReadClients(dir); err == nil {
			t.Errorf("%s: %d clients", name, len(keys))
		}
	}
}

// What C tor wrote is read as it is, with a slash of a newline at the end or not.
func TestReadClientsOfOthers(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, dirClients, "a.auth"), []byte("descriptor:x25519:N2NU7BSRL6YODZCYPN4CREB54TYLKGIE2KYOQWLFYC23ZJVCE5DQ\n"))
	keys, err := ReadClients(dir)
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if err := os.Chmod(filepath.Join(dir, dirClients, "a.auth"), fs.FileMode(0)); err != nil || os.Geteuid() == 0 {
		return
	}
	if _, err := ReadClients(dir); !fault.Is(err, fault.Config) {
		t.Errorf("%v", err)
	}
}
