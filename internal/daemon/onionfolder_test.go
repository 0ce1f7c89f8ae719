package daemon

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
)

// page asks a service for its front page.
func sitePage(t *testing.T, one *fakeOnion) string {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	one.conns <- far
	if _, err := io.WriteString(near, "GET / HTTP/1.1\r\nHost: x.onion\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(near), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestOnionFolder: a service shows its folder, a reload shows another one, and the end of the service
// ends it.
func TestOnionFolder(t *testing.T) {
	base := t.TempDir()
	for _, name := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(base, name, "index.html"), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := func(more string) string {
		return fmt.Sprintf("socks = \"\"\ndata-dir = %q\n[[onion]]\nkey-dir = \"/a\"\n%s\n", filepath.Join(base, "data"), more)
	}
	one, two := fmt.Sprintf("dir = %q", filepath.Join(base, "one")), fmt.Sprintf("dir = %q", filepath.Join(base, "two"))
	f := newFakes(t)
	f.conns = make(chan net.Conn)
	all := hostingsOf(t, file(one))
	if !slices.Equal(all[0].Ports, []int{80}) {
		t.Errorf("ports %v", all[0].Ports)
	}
	if err := f.start(all); err != nil {
		t.Fatal(err)
	}
	a := f.made["/a"]
	if got := sitePage(t, a); got != "one" {
		t.Error(got)
	}
	served := f.all[0].site
	fine := func() error { return nil }
	if err := f.reload(hostingsOf(t, file(two)), fine); err != nil {
		t.Fatal(err)
	}
	if got := sitePage(t, a); got != "two" {
		t.Error("after a reload:", got)
	}
	// The same name, and another folder.
	if err := os.Rename(filepath.Join(base, "two"), filepath.Join(base, "old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(base, "one"), filepath.Join(base, "two")); err != nil {
		t.Fatal(err)
	}
	if err := f.reload(hostingsOf(t, file(two)), fine); err != nil {
		t.Fatal(err)
	}
	if got := sitePage(t, a); got != "one" {
		t.Error("after another folder has its name:", got)
	}
	if err := f.reload(hostingsOf(t, file("port = \"80\"")), fine); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "dir: whether") {
		t.Error("a folder goes:", err)
	}
	if got := sitePage(t, a); got != "one" {
		t.Error("after a reload that was refused:", got)
	}
	if err := f.reload(hostingsOf(t, strings.Replace(file("port = \"80\""), "/a", "/b", 1)), fine); err != nil {
		t.Fatal(err)
	}
	if a.ended.Err() == nil {
		t.Error("the service has not ended")
	}
	w := httptest.NewRecorder()
	served.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Error("the folder of a service that has ended is still open:", w.Code)
	}
}

// TestOnionFolderRefused: what cannot be shown, and what must not be.
func TestOnionFolderRefused(t *testing.T) {
	base := t.TempDir()
	site := filepath.Join(base, "site")
	if err := os.Mkdir(site, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(site, link); err != nil {
		t.Skip(err)
	}
	baseLink := filepath.Join(t.TempDir(), "base")
	if err := os.Symlink(base, baseLink); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ dir, keys, data, more, want string }{
		{site, base + "/keys", base + "/data", "", ""},
		{link, base + "/keys", base + "/data", "", ""},
		{site, base + "/keys", base + "/data", "port = \"22\"", ""},
		{site, base + "/sitekeys", base + "/data", "", ""},
		{site, base + "/keys", base + "/data", "port = \"80\"", "dir: port 80 is given a target, too"},
		{base + "/none", base + "/keys", base + "/data", "", "dir: folder of files: "},
		{site, site, base + "/data", "", "is in the folder"},
		{site, site + "/keys", base + "/data", "", "is in the folder"},
		{link, site + "/keys", base + "/data", "", "is in the folder"},
		{site, link + "/keys", base + "/data", "", "is in the folder"},
		{site, base + "/keys", site + "/.data", "", "is in the folder"},
		{base, base + "/keys", "/data", "", "is in the folder"},
		{"/", base + "/keys", base + "/data", "", "is in the folder"},
		{site, base + "/keys", base, "", "nobody else may read"},
		{link, base + "/keys", base, "", "nobody else may read"},
		{site, base + "/keys", baseLink, "", "nobody else may read"},
		{baseLink + "/link", base + "/keys", base, "", "nobody else may read"},
		{site, base, base + "/data", "", "nobody else may read"},
		{link, baseLink, base + "/data", "", "nobody else may read"},
		{site, base + "/site/../sit", base + "/data", "", ""},
		{"", base + "/keys", base + "/data", "port = \"80\"\ndir-list = true", "none is given"},
	} {
		file := fmt.Sprintf("socks = \"\"\ndata-dir = %q\n[[onion]]\nkey-dir = %q\ndir = %q\n%s\n", test.data, test.keys, test.dir, test.more)
		if _, err := told(t, file); (err == nil) != (test.want == "") || err != nil && (!fault.Is(err, fault.Config) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: %v", test, err)
		}
		// The command says the same.
		s := NewOnionSettings(new([]string))
		top := fmt.Sprintf("data-dir = %q\nkey-dir = %q\ndir = %q\n%s\n", test.data, test.keys, test.dir, test.more)
		if err := s.ReadFile("f", []byte(top)); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("the command: %+v: %v", test, err)
		}
	}
}

// TestOnionFolderWithSecrets: no folder is shown in which the client's own keys and passwords are.
func TestOnionFolderWithSecrets(t *testing.T) {
	base := t.TempDir()
	site := filepath.Join(base, "site")
	for _, d := range []string{site, site + "/auth", base + "/auth"} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	service, err := chive.NewOnionKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := chive.NewOnionClientKey(service.Address())
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"auth/shop.auth_private": key.Text(), "proxy": "socks5://user:password@192.0.2.7:1080"} {
		for _, d := range []string{site, base} {
			if err := os.WriteFile(filepath.Join(d, file), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for option, at := range map[string]string{"client-onion-auth-dir": "/auth", "client-onion-auth": "/auth/shop.auth_private", "proxy": "/proxy"} {
		sign := "@"
		if option == "client-onion-auth-dir" {
			sign = ""
		}
		for _, d := range []string{site, base} {
			s := NewOnionSettings(new([]string))
			top := fmt.Sprintf("data-dir = %q\nkey-dir = %q\ndir = %q\n%s = %q\n", base+"/data", base+"/keys", site, option, sign+d+at)
			if err := s.ReadFile("f", []byte(top)); err != nil {
				t.Fatal(err)
			}
			err := s.Check()
			if refused := d == site; (err != nil) != refused || refused && (!fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "is in the folder")) {
				t.Errorf("%s: %v", top, err)
			}
		}
	}
}
