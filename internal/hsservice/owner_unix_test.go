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
	roots := filepath.Join(t.TempDir(), "root's")
	put(t, roots, []byte("x"))
	for name, make := range map[string]func(string) error{
		"link":   func(p string) error { return os.Symlink(roots, p) },
		"second": func(p string) error { return os.Link(roots, p) },
		"pipe":   func(p string) error { return syscall.Mkfifo(p, 0o600) },
	} {
		p := filepath.Join(dir, dirClients, name)
		if err := make(p); err != nil {
			t.Fatal(err)
		}
		if err := giveTo(dir, p); err == nil {
			t.Errorf("%s: given away", name)
		}
		if u, _ := owner(roots); u != 0 {
			t.Fatalf("%s: a file of root's was given away", name)
		}
	}
}
