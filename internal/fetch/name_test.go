package fetch

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFileName(t *testing.T) {
	for u, want := range map[string]string{
		"http://h/":               "index.html",
		"http://h/a/b.txt?c=/d#e": "b.txt",
		"http://h/a%20b":          "a b",
		"http://h/%2e%2e":         "_._",
		"http://h/a/..%5c..%5cb":  "_._.._b",
		"http://h/a%00b%1b[2J%7f": "a_b_[2J_",
		"http://h/%c2%9b":         "_",
		"http://h/%ff":            "_",
		"http://h/%e2%80%ae":      "_", // turns the direction of writing
		"http://h/a.":             "a._",
		"http://h/a%20":           "a _",
		"http://h/CON":            "CON_",
		"http://h/nul.txt":        "nul.txt_",
		"http://h/com1":           "com1_",
		"http://h/lpt%C2%B9.x":    "lpt¹.x_",
		"http://h/common":         "common",
		"http://h/c:x":            "c_x",
		"http://h/x.part.json":    "x.part.json_",
		"http://h/-rf":            "-rf",
		"http://h/~":              "~",
		"http://h/" + strings.Repeat("ä", 150) + ".tar": strings.Repeat("ä", 98) + ".tar",
	} {
		p, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		if got := fileName(p); got != want {
			t.Errorf("%s: %q, not %q", u, got, want)
		}
	}
}

// FuzzFileName: a name is always that of a file right in the folder.
func FuzzFileName(f *testing.F) {
	for _, s := range []string{"/a", "/..", "/../x", "/%2f", "/\\", "/.", "/CON", "/\x1b", "/" + strings.Repeat("x", 300) + ".part"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		name := fileName(&url.URL{Scheme: "http", Host: "h", Path: path})
		if name == "" || name != filepath.Base(name) || !filepath.IsLocal(name) || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\:\x00\x1b\n") ||
			!utf8.ValidString(name) || len(name) > maxName+10 || strings.HasSuffix(name, partSuffix) || strings.HasSuffix(name, infoSuffix) {
			t.Errorf("%q: %q", path, name)
		}
	})
}

// TestForeignPart: a server's file cannot pose as the part of another download.
func TestForeignPart(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f := &folder{Root: root, used: map[string]bool{}}
	u, _ := url.Parse("http://evil.test/x.part.json")
	to, err := f.target(u.String(), fileName(u), false)
	if err != nil {
		t.Fatal(err)
	}
	to.Write([]byte(`{"url":"http://h.test/x","etag":"\"a\""}`))
	if err := to.finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "x.part.json")); err == nil {
		t.Error("a server has chosen the version of a part")
	}
}
