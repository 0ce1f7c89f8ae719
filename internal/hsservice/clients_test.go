package hsservice

import (
	"crypto/ecdh"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

func newService(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shop")
	if _, err := OpenKey(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// nobody takes a client's half, and forgets it.
func nobody(string) error { return nil }

// TestAddClient: the halves fit together, and what cannot be is refused before anything is written.
func TestAddClient(t *testing.T) {
	dir := newService(t)
	var private string
	path, err := AddClient(dir, "alice", "", func(p string) error { private = p; return nil })
	if err != nil || path != filepath.Join(dir, dirClients, "alice.auth") {
		t.Fatal(path, err)
	}
	f := strings.Split(private, ":")
	raw, err := base32NoPad.DecodeString(f[len(f)-1])
	if err != nil {
		t.Fatal(private, err)
	}
	key, err := ecdh.X25519().NewPrivateKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	have, err := ListClients(dir)
	if err != nil || len(have) != 1 || have[0].Name != "alice" || have[0].Err != nil || have[0].Key != ident.X25519Key(key.PublicKey().Bytes()) {
		t.Fatalf("%+v %v", have, err)
	}
	alice := FormatClient(have[0].Key)
	for name, c := range map[string]struct{ name, public, want string }{
		"the same name":    {"alice", "", "is there already"},
		"the same key":     {"bob", alice, "the client alice has this key already"},
		"no key":           {"bob", "descriptor:x25519:XYZ", "it is not"},
		"a bad key":        {"bob", strings.Repeat("A", 52), "cannot be one of X25519"},
		"a path":           {"../bob", "", "good as a file's name"},
		"a hidden name":    {".bob", "", "good as a file's name"},
		"no name":          {"", "", "good as a file's name"},
		"a line in a name": {"bob\nx", "", "good as a file's name"},
		"a file's name":    {"bob.auth", "", "without the ending"},
	} {
		gave := func(string) error { t.Errorf("%s: a key was given out", name); return nil }
		if _, err := AddClient(dir, c.name, c.public, gave); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := AddClient(t.TempDir(), "bob", "", nobody); err == nil {
		t.Error("a client of no service")
	}
	lost := errors.New("nobody took it")
	if _, err := AddClient(dir, "bob", "", func(string) error { return lost }); !errors.Is(err, lost) {
		t.Error(err)
	}
	if have, err := ListClients(dir); err != nil || len(have) != 1 {
		t.Errorf("after refusals: %+v %v", have, err)
	}
	// A key that the client has made, with the words before it or without.
	_, other, err := NewClient("x")
	if err == nil {
		t.Error("a client of no address", other)
	}
	k, err := ReadKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, cut := range map[string]string{"carol": "", "dave": authPrefix} {
		public, _, err := NewClient(k.Address())
		if err != nil {
			t.Fatal(err)
		}
		path, err := AddClient(dir, name, strings.TrimPrefix(public, cut), func(string) error { t.Error("a key was made"); return nil })
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != public+"\n" {
			t.Errorf("%q %v", b, err)
		}
	}
	file := filepath.Join(t.TempDir(), "x")
	put(t, file, []byte("mine"))
	if _, err := AddClient(dir, "eve", "", SavePrivate(file)); !fault.Is(err, fault.Config) {
		t.Error("a file was replaced:", err)
	}
}

// TestListClients: what is broken is told with its file and line.
func TestListClients(t *testing.T) {
	dir := newService(t)
	if have, err := ListClients(dir); err != nil || have != nil {
		t.Fatal(have, err)
	}
	good := "descriptor:x25519:N2NU7BSRL6YODZCYPN4CREB54TYLKGIE2KYOQWLFYC23ZJVCE5DQ"
	folder := filepath.Join(dir, dirClients)
	if err := os.MkdirAll(filepath.Join(folder, "f.auth"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a.auth": "\n" + good + "\n\n", "b.auth": "\n\nnonsense\n", "c.auth": good + "\n" + good + "\n", "d.auth": "", "e": good, ".g": "x", ".g.auth": good, "h.auth": strings.ToLower(good[18:]),
	} {
		put(t, filepath.Join(folder, name), []byte(text))
	}
	have, err := ListClients(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ name, err string }{
		{".g", ""}, {"a", ""}, {"b", "b.auth:3: "}, {"c", "c.auth:2: a second line"}, {"d", "d.auth:1: "}, {"e", "e: its name does not end in .auth"}, {"f", "f.auth: "}, {"h", "h.auth:1: "},
	} {
		c := have[i]
		if c.Name != want.name || (c.Err == nil) != (want.err == "") || c.Err != nil && !strings.Contains(c.Err.Error(), filepath.Join(folder, want.err)) {
			t.Errorf("%+v, not %+v", c, want)
		}
	}
	if _, err := ReadClients(dir); err == nil || !strings.Contains(err.Error(), "b.auth:3: ") {
		t.Error("a service starts with it:", err)
	}
	if _, err := ListClients(filepath.Join(dir, "none")); !fault.Is(err, fault.Config) {
		t.Error("no directory:", err)
	}
}

// TestClientsAtOnce: commands at the same time remove no last client, and replace no other's file.
func TestClientsAtOnce(t *testing.T) {
	dir := newService(t)
	both := func(f func(i int) error) (errs [2]error) {
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = f(i) })
		}
		wg.Wait()
		return errs
	}
	for round := range 12 {
		given := [2]string{}
		errs := both(func(i int) error {
			_, err := AddClient(dir, "new", "", func(private string) error { given[i] = private; return nil })
			return err
		})
		if (errs[0] == nil) == (errs[1] == nil) || (given[0] == "") == (given[1] == "") {
			t.Fatalf("round %d: two clients of one name: %v", round, errs)
		}
		if _, err := AddClient(dir, "other", "", nobody); err != nil {
			t.Fatal(err)
		}
		errs = both(func(i int) error {
			_, err := RemoveClient(dir, []string{"new", "other"}[i], false)
			return err
		})
		all, err := ListClients(dir)
		if err != nil || len(all) != 1 || (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("round %d: %d clients are left: %v, %v", round, len(all), errs, err)
		}
		if _, err := RemoveClient(dir, all[0].Name, true); err != nil {
			t.Fatal(err)
		}
	}
	unlock, err := lockClients(dir)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if _, err := AddClient(dir, "late", "", nobody); !fault.Is(err, fault.Local) {
			t.Errorf("while another command has the lock: %v", err)
		}
	})
	unlock()
	if _, err := AddClient(dir, "late", "", nobody); err != nil {
		t.Errorf("after the other command: %v", err)
	}
}

// TestRemoveClient: nobody opens a service to all by removing the last client.
func TestRemoveClient(t *testing.T) {
	dir := newService(t)
	for _, name := range []string{"alice", "bob"} {
		if _, err := AddClient(dir, name, "", nobody); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"carol", "../x", "", "alice.auth"} {
		if _, err := RemoveClient(dir, name, true); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := RemoveClient(dir, "alice", false); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, dirClients, "broken.auth"), []byte("x"))
	if _, err := RemoveClient(dir, "bob", false); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "everybody") {
		t.Error("the last one:", err)
	}
	if _, err := RemoveClient(dir, "broken", false); err != nil {
		t.Error("a broken file beside a client:", err)
	}
	if keys, err := ReadClients(dir); err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if _, err := RemoveClient(dir, "bob", true); err != nil {
		t.Error(err)
	}
	if keys, err := ReadClients(dir); err != nil || keys != nil {
		t.Error(keys, err)
	}
}

func TestTooManyClients(t *testing.T) {
	dir := newService(t)
	if _, err := AddClient(dir, "first", "", nobody); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, dirClients, "first.auth"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range MaxClients - 1 {
		put(t, filepath.Join(dir, dirClients, fmt.Sprint(i)+".auth"), text)
	}
	if _, err := AddClient(dir, "last", "", nobody); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
}
