package site

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOtherNames: a name that may be another one of a file with a dot leads to the file only if the directory has it.
func TestOtherNames(t *testing.T) {
	dir := tree(t)
	for _, name := range []string{"notes~1.txt", "sub/a\u200db.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("shown"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, Options{})
	for target, want := range map[string]int{
		"/notes~1.txt": 200, "/sub/a%E2%80%8Db.txt": 200, "/sub/": 200, "/a%20b.txt": 200, "/GIT~1/config": 404, "/sub/GIT~1": 404,
	} {
		if r := get(s, "GET", target); r.StatusCode != want {
			t.Error(target, r.Status)
		}
	}
	f := s.use()
	defer f.release()
	for name, want := range map[string]bool{
		".": true, "sub": true, "notes~1.txt": true, "sub/a\u200db.txt": true, "~": true, "README~": true, "long-name-of-9~1": true,
		"GIT~1": false, "sub/GIT~1": false, "sub/GIT~1/config": false, "sub/\u200c.git/config": false, "sub/.g\u200cit": false, "\ufe0f.git": false, "HTACCE~1.X": false,
	} {
		if f.itsOwn(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
	for name, want := range map[string]bool{`sub\.git\config`: true, "index.html::$DATA": true, "sub/x": false} {
		if foreign(name, '\\') != want || foreign(name, '/') {
			t.Errorf("%q", name)
		}
	}
}
