//go:build unix

package hsservice

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestClientsBelongToTheService: what root adds can be read by the user that the service runs as, and root gives away nothing else.
func TestClientsBelongToTheService(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root writes for others")
	}
	const user, group = 65533, 65532
	dir := newService(t)
	if err := os.Chown(dir, user, group); err != nil {
		t.Skip(err)
	}
	path, err := AddClient(dir, "alice", "", nobody)
	if err != nil {
		t.Fatal(err)
	}
	owner := func(path string) (uint32, uint32) {
		st, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		s := st.Sys().(*syscall.Stat_t)
		return s.Uid, s.Gid
	}
	for _, p := range []string{path, filepath.Dir(path)} {
		if u, g := owner(p); u != user || g != group {
			t.Errorf("%s is of %d:%d", p, u, g)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v beside the file: %v", left, err)
	}
}

// TestRootWritesOnlyInside: the owner of a service's directory can put links there, also while root works. Then root
// writes nothing elsewhere, gives nothing away, and removes nothing.
func TestRootWritesOnlyInside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root writes for others")
	}
	const user, group = 65533, 65532
	dir := newService(t)
	if err := os.Chown(dir, user, group); err != nil {
		t.Skip(err)
	}
	roots := t.TempDir()
	file := filepath.Join(roots, "bob.auth")
	put(t, file, []byte("root's"))
	untouched := func(what string) {
		t.Helper()
		st, err := os.Lstat(file)
		if err != nil {
			t.Fatal(what, err)
		}
		text, err := os.ReadFile(file)
		if all, _ := os.ReadDir(roots); err != nil || string(text) != "root's" || st.Sys().(*syscall.Stat_t).Uid != 0 || len(all) != 1 {
			t.Fatalf("%s: %q %v %v", what, text, all, err)
		}
	}
	clients := filepath.Join(dir, dirClients)
	link := func(to, at string) {
		t.Helper()
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}

	link(roots, clients)
	if path, err := AddClient(dir, "alice", "", nobody); err == nil {
		t.Error("a client was written to", path)
	}
	untouched("a folder that is a link")
	if path, err := RemoveClient(dir, "bob", true); err == nil {
		t.Error("a file was removed:", path)
	}
	untouched("a file in a folder that is a link")
	if err := os.Remove(clients); err != nil {
		t.Fatal(err)
	}

	// give is called after everything was looked at.
	for what, change := range map[string]func(){
		"link":   func() { link(file, filepath.Join(clients, "link.auth")) },
		"folder": func() { os.RemoveAll(clients); link(roots, clients) },
	} {
		if err := os.Mkdir(clients, 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := AddClient(dir, what, "", func(string) error { change(); return nil })
		if (err == nil) != (what == "link") {
			t.Errorf("%s: %v", what, err)
		}
		untouched(what)
		if err := os.RemoveAll(clients); err != nil {
			t.Fatal(err)
		}
	}
}
