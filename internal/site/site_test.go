package site

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

const secret = "what nobody may read"

// tree makes a folder, beside a file that is not of it.
func tree(t *testing.T) string {
	t.Helper()
	base := t.TempDir()
	dir := filepath.Join(base, "site")
	for name, text := range map[string]string{
		"../outside.txt": secret, "../out/index.html": secret,
		"index.html": "<p>front", "a b.txt": "0123456789", "README": "plain words", "page.unknown": "<html><p>x",
		"sub/index.html": "<p>sub", "empty/dir/x.css": "x{}", ".hidden": secret, ".well-known/x.txt": "known", "sub/.git/config": secret,
		"list/<b>.txt": "x", "list/.dot": "x", "list/deep/x": "x",
	} {
		path := filepath.Join(dir, name)
		if runtime.GOOS == "windows" && strings.Contains(name, "<") {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Skip(err)
	}
}

func open(t *testing.T, dir string, opt Options) *Server {
	t.Helper()
	s, err := New(dir, opt, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// get asks for a target as it stands, without a client that makes it better.
func get(s *Server, method, target string, headers ...string) *http.Response {
	raw := method + " " + target + " HTTP/1.1\r\nHost: x.onion\r\n" + strings.Join(headers, "\r\n")
	if len(headers) > 0 {
		raw += "\r\n"
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw + "\r\n")))
	if err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	s.serve(w, r)
	return w.Result()
}

func body(r *http.Response) string {
	b, _ := io.ReadAll(r.Body)
	return string(b)
}

func TestFiles(t *testing.T) {
	s := open(t, tree(t), Options{})
	for target, want := range map[string]struct {
		kind, text string
	}{
		"/": {"text/html; charset=utf-8", "<p>front"}, "/index.html": {"text/html; charset=utf-8", "<p>front"},
		"/a%20b.txt": {"text/plain; charset=utf-8", "0123456789"}, "/README": {"text/plain; charset=utf-8", "plain words"},
		"/page.unknown": {"text/html; charset=utf-8", "<html><p>x"},
		"/sub/":         {"text/html; charset=utf-8", "<p>sub"}, "/sub/../index.html": {"text/html; charset=utf-8", "<p>front"},
		"/empty/dir/x.css": {"text/css; charset=utf-8", "x{}"}, "/?q": {"text/html; charset=utf-8", "<p>front"}, "//": {"text/html; charset=utf-8", "<p>front"},
	} {
		r := get(s, "GET", target)
		if got := body(r); r.StatusCode != 200 || got != want.text || r.Header.Get("Content-Type") != want.kind {
			t.Errorf("%s: %s %q %q", target, r.Status, got, r.Header)
		}
		head := get(s, "HEAD", target)
		if got := body(head); head.StatusCode != 200 || got != "" || head.Header.Get("Content-Length") != fmt.Sprint(len(want.text)) {
			t.Errorf("HEAD %s: %s %q %q", target, head.Status, got, head.Header)
		}
	}
	for target, to := range map[string]string{"/sub": "sub/", "/sub?q=1": "sub/?q=1", "//sub": "sub/", "/empty/dir": "dir/"} {
		if r := get(s, "GET", target); r.StatusCode != 301 || r.Header.Get("Location") != to {
			t.Errorf("%s: %s, to %q", target, r.Status, r.Header.Get("Location"))
		}
	}
}

// TestNothingElse: no name leads to what is not shown, and the answer does not repeat the name.
func TestNothingElse(t *testing.T) {
	dir := tree(t)
	base := filepath.Dir(dir)
	link(t, "../outside.txt", filepath.Join(dir, "out.txt"))
	link(t, filepath.Join(base, "outside.txt"), filepath.Join(dir, "abs.txt"))
	link(t, "../out", filepath.Join(dir, "outdir"))
	link(t, "/", filepath.Join(dir, "root"))
	link(t, "loop", filepath.Join(dir, "loop"))
	link(t, "/dev/zero", filepath.Join(dir, "zero"))
	for _, list := range []bool{false, true} {
		s := open(t, dir, Options{List: list})
		for _, target := range []string{
			"/../outside.txt", "/..%2foutside.txt", "/%2e%2e/outside.txt", "/sub/../../outside.txt", "/..%5coutside.txt", "/....//outside.txt",
			"/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc/passwd", "/index.html/../../outside.txt", "//outside.txt", "/index.html%00.txt", "/" + strings.Repeat("x", 5000),
			"/out.txt", "/abs.txt", "/outdir/", "/outdir/index.html", "/root/etc/passwd", "/loop", "/zero", "/zero/",
			"/.hidden", "/%2ehidden", "/.well-known/x.txt", "/sub/.git/config", "/sub/.git/", "/sub/%2egit/config", "/index.html/", "/nothing", "/sub/index.html/x",
		} {
			r := get(s, "GET", target)
			if got := body(r); r.StatusCode != 404 || got != "Not Found\n" {
				t.Errorf("list %v: %.40s: %s %q", list, target, r.Status, got)
			}
			if r := get(s, "HEAD", target); r.StatusCode != 404 {
				t.Errorf("list %v: HEAD %.40s: %s", list, target, r.Status)
			}
		}
	}
	if r := get(open(t, dir, Options{}), "GET", "/list/"); r.StatusCode != 404 {
		t.Error("a list that nobody asked for:", r.Status)
	}
	if r := get(open(t, dir, Options{Dot: true}), "GET", "/.well-known/x.txt"); body(r) != "known" {
		t.Error("a dot file that was asked for:", r.Status)
	}
}

// TestLinksInside: links that stay in the folder are followed.
func TestLinksInside(t *testing.T) {
	dir := tree(t)
	link(t, "sub/index.html", filepath.Join(dir, "again.html"))
	link(t, "sub", filepath.Join(dir, "other"))
	s := open(t, dir, Options{})
	for _, target := range []string{"/again.html", "/other/", "/other/index.html"} {
		if r := get(s, "GET", target); body(r) != "<p>sub" {
			t.Error(target, r.Status)
		}
	}
}

func TestMethods(t *testing.T) {
	s := open(t, tree(t), Options{})
	for _, m := range []string{"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "PROPFIND", "get"} {
		if r := get(s, m, "/index.html"); r.StatusCode != 405 || r.Header.Get("Allow") != "GET, HEAD" || r.Header.Get("Connection") != "close" {
			t.Error(m, r.Status, r.Header)
		}
	}
	for _, h := range []string{"Content-Length: 5", "Transfer-Encoding: chunked"} {
		if r := get(s, "GET", "/index.html", h); r.StatusCode != 400 || r.Header.Get("Connection") != "close" {
			t.Error("a request with a body:", r.Status, r.Header)
		}
	}
}

func TestRanges(t *testing.T) {
	dir := tree(t)
	s := open(t, dir, Options{})
	tag := get(s, "HEAD", "/a%20b.txt").Header.Get("ETag")
	if len(tag) < 10 {
		t.Fatalf("tag %q", tag)
	}
	for _, test := range []struct {
		headers []string
		status  int
		text    string
	}{
		{[]string{"Range: bytes=2-4"}, 206, "234"},
		{[]string{"Range: bytes=-3"}, 206, "789"},
		{[]string{"Range: bytes=7-"}, 206, "789"},
		{[]string{"Range: bytes=2-4", "If-Range: " + tag}, 206, "234"},
		{[]string{"Range: bytes=2-4", `If-Range: "other"`}, 200, "0123456789"},
		{[]string{"Range: bytes=0-0,2-2"}, 200, "0123456789"},
		{[]string{"Range: bytes=" + strings.Repeat("0-0,", 3000) + "1-1"}, 200, "0123456789"},
		{[]string{"Range: bytes=10-"}, 416, "invalid range: failed to overlap\n"},
		{[]string{"If-None-Match: " + tag}, 304, ""},
		{[]string{`If-None-Match: "other"`}, 200, "0123456789"},
	} {
		r := get(s, "GET", "/a%20b.txt", test.headers...)
		if got := body(r); r.StatusCode != test.status || got != test.text {
			t.Errorf("%.60q: %s %q", test.headers, r.Status, got)
		}
	}
	if get(open(t, dir, Options{}), "HEAD", "/a%20b.txt").Header.Get("ETag") == tag {
		t.Error("two servers give one file the same tag: it may tell them to be one machine")
	}
}

// TestChanged: a changed file has another entity tag.
func TestChanged(t *testing.T) {
	dir := tree(t)
	s := open(t, dir, Options{})
	tag := get(s, "HEAD", "/index.html").Header.Get("ETag")
	if again := get(s, "HEAD", "/index.html").Header.Get("ETag"); again != tag {
		t.Error(tag, again)
	}
	if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte("<p>more of it"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := get(s, "GET", "/index.html", "If-None-Match: "+tag)
	if got := body(r); got != "<p>more of it" {
		t.Error(r.Status, got)
	}
}

// TestTellsNothing: an answer has only headers that it needs.
func TestTellsNothing(t *testing.T) {
	s := open(t, tree(t), Options{List: true})
	known := map[string]bool{
		"Content-Type": true, "Content-Length": true, "Accept-Ranges": true, "Etag": true, "X-Content-Type-Options": true, "Connection": true,
		"Allow": true, "Location": true, "Content-Range": true,
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l, func(net.Conn) uint64 { return 0 }) }()
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n", "GET /README HTTP/1.1\r\nHost: x\r\n", "GET /list/ HTTP/1.1\r\nHost: x\r\n", "GET /none HTTP/1.1\r\nHost: x\r\n", "GET /sub HTTP/1.1\r\nHost: x\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\n", "OPTIONS * HTTP/1.1\r\nHost: x\r\n", "GET / HTTP/1.1\r\nHost: x\r\nRange: bytes=1-2\r\n", "nonsense\r\n", "GET / HTTP/1.1\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n", "GET / HTTP/1.1\r\nHost: x\r\nRange: bytes=99-\r\n",
		"GET / HTTP/1.0\r\n", "PRI * HTTP/2.0\r\n",
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, request+"Connection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%.40q: %v", request, err)
			continue
		}
		if long := len(request) > 16<<10; long != (r.StatusCode == http.StatusRequestHeaderFieldsTooLarge) {
			t.Errorf("%.40q: %s", request, r.Status)
		}
		for h := range r.Header {
			if !known[h] {
				t.Errorf("%.40q: %s: %q", request, h, r.Header[h])
			}
		}
		if b := body(r); strings.Contains(b, "127.0.0.1") || strings.Contains(b, os.TempDir()) {
			t.Errorf("%.40q: %q", request, b)
		}
		c.Close()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if r := get(s, "GET", "/"); r.StatusCode != 503 {
		t.Error("after Close:", r.Status)
	}
}

func TestList(t *testing.T) {
	dir := tree(t)
	link(t, "../../outside.txt", filepath.Join(dir, "list", "out"))
	link(t, "../index.html", filepath.Join(dir, "list", "inside"))
	s := open(t, dir, Options{List: true})
	r := get(s, "GET", "/list/")
	want := "<!doctype html>\n<meta charset=\"utf-8\">\n<title>/list/</title>\n<h1>/list/</h1>\n<ul>\n<li><a href=\"../\">../</a>\n" +
		"<li><a href=\"%3Cb%3E.txt\">&lt;b&gt;.txt</a>\n<li><a href=\"deep/\">deep/</a>\n<li><a href=\"inside\">inside</a>\n</ul>\n"
	if got := body(r); r.StatusCode != 200 || got != want {
		t.Errorf("%s\n%s\nwant\n%s", r.Status, got, want)
	}
	many := filepath.Join(dir, "many")
	if err := os.Mkdir(many, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range maxListed + 3 {
		if err := os.WriteFile(filepath.Join(many, fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := body(get(s, "GET", "/many/")); strings.Count(got, "<li>") != maxListed+1 || !strings.Contains(got, "There are more") {
		t.Error(strings.Count(got, "<li>"), "entries")
	}
	if got := body(get(s, "GET", "/")); got != "<p>front" {
		t.Error(got)
	}
	if err := os.Remove(filepath.Join(dir, "index.html")); err != nil {
		t.Fatal(err)
	}
	if got := body(get(s, "GET", "/")); !strings.Contains(got, "<h1>/</h1>\n<ul>\n<li><a href=\"README\">") {
		t.Error(got)
	}
}

// TestReplaced: who reads a file reads one file, whatever takes its name meanwhile. A file that becomes shorter
// ends the connection, since the client must not take a part for the whole.
func TestReplaced(t *testing.T) {
	dir := tree(t)
	path := filepath.Join(dir, "big.bin")
	old := bytes.Repeat([]byte("old!"), 4<<20)
	if err := os.WriteFile(path, old, 0o644); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l, func(net.Conn) uint64 { return 0 })
	fetch := func(meanwhile func() error) ([]byte, error) {
		r, err := http.Get("http://" + l.Addr().String() + "/big.bin")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		first := make([]byte, 10)
		if _, err := io.ReadFull(r.Body, first); err != nil {
			t.Fatal(err)
		}
		if err := meanwhile(); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(r.Body)
		return append(first, rest...), err
	}
	if got, err := fetch(func() error { return os.Truncate(path, 100) }); err != io.ErrUnexpectedEOF {
		t.Errorf("a file that was cut: %d bytes, %v", len(got), err)
	}
	if err := os.WriteFile(path, old, 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := fetch(func() error {
		fresh := filepath.Join(dir, "fresh")
		if err := os.WriteFile(fresh, []byte("new"), 0o644); err != nil {
			return err
		}
		return os.Rename(fresh, path)
	})
	if err != nil || !bytes.Equal(got, old) {
		t.Errorf("a file that was replaced: %d bytes, %v", len(got), err)
	}
	if got := body(get(s, "GET", "/big.bin")); got != "new" {
		t.Errorf("the next request: %.20q", got)
	}
}

// TestChange: another folder, or another one of the same name, is served from then on, and requests under way
// go on.
func TestChange(t *testing.T) {
	dir := tree(t)
	s := open(t, dir, Options{})
	f := s.use()
	if err := s.Change(filepath.Join(dir, "sub"), Options{}); err != nil {
		t.Fatal(err)
	}
	if got := body(get(s, "GET", "/")); got != "<p>sub" {
		t.Error(got)
	}
	if file, _, err := f.open("README"); err != nil {
		t.Error("a request that came before:", err)
	} else {
		file.Close()
	}
	f.release()
	if _, _, err := f.open("README"); err == nil {
		t.Error("the old folder is still open")
	}
	if err := s.Change(filepath.Join(dir, "nothing"), Options{}); err == nil {
		t.Error("a folder that is not there")
	}
	if err := s.Change(filepath.Join(dir, "README"), Options{}); err == nil {
		t.Error("a folder that is a file")
	}
	if got := body(get(s, "GET", "/")); got != "<p>sub" {
		t.Error("after an error:", got)
	}
}

func TestStatus(t *testing.T) {
	for err, want := range map[error]int{
		fs.ErrPermission: 403, &fs.PathError{Op: "openat", Path: "x", Err: syscall.EACCES}: 403, fs.ErrNotExist: 404,
		&fs.PathError{Op: "openat", Path: "x", Err: syscall.EMFILE}: 503, syscall.ENOTDIR: 404, os.ErrInvalid: 404,
	} {
		if got := statusOf(err); got != want {
			t.Error(err, got)
		}
	}
}
