package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// site is a web server that every name leads to.
type site struct {
	*httptest.Server
	dialled []string
	notes   []string
}

func newSite(t *testing.T, h http.HandlerFunc) *site {
	s := &site{Server: httptest.NewServer(h)}
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	return s
}

// get runs Get, and returns what came on standard output.
func (s *site) get(t *testing.T, o Options) (string, error) {
	var b strings.Builder
	o.Stdout = &b
	o.Note = func(text string) { s.notes = append(s.notes, text) }
	o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		s.dialled = append(s.dialled, addr)
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}
	err := Get(t.Context(), o)
	return b.String(), err
}

// files returns the names in a folder, and the content of those that are not of a
// partial download.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range all {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(b)
	}
	return out
}

func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	if got := files(t, dir); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the folder has %q, not %q", got, want)
	}
}

func TestGet(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			_, agent := r.Header["User-Agent"]
			_, encoding := r.Header["Accept-Encoding"]
			w.Write([]byte(r.Host + " " + r.Header.Get("X-A")))
			if agent || encoding {
				w.Write([]byte(" more headers"))
			}
		case "/short":
			w.Header().Set("Content-Length", "100")
			w.Write([]byte("short"))
		default:
			http.NotFound(w, r)
		}
	})
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // the environment has no say
	if out, err := s.get(t, Options{URLs: []string{"http://host.test/echo"}, Headers: []string{"X-A: b"}}); out != "host.test b" || err != nil || s.dialled[0] != "host.test:80" {
		t.Errorf("%q %v %q", out, err, s.dialled)
	}
	if out, err := s.get(t, Options{URLs: []string{"http://host.test/echo"}, Headers: []string{"Host: other"}}); out != "other " || err != nil {
		t.Errorf("%q %v", out, err)
	}
	if out, err := s.get(t, Options{URLs: []string{"http://a.test/echo", "http://b.test/echo"}, Out: "-"}); out != "a.test b.test " || err != nil {
		t.Errorf("%q %v", out, err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "out")
	for range 2 { // the second replaces the first
		if out, err := s.get(t, Options{URLs: []string{"http://host.test/echo"}, Out: file}); out != "" || err != nil {
			t.Errorf("%q %v", out, err)
		}
	}
	wantFiles(t, dir, map[string]string{"out": "host.test "})
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Error(st.Mode(), err)
	}
	if _, err := s.get(t, Options{URLs: []string{"http://host.test/short"}, Out: file}); !fault.Is(err, fault.Network) || ServersOnly(err) {
		t.Errorf("a truncated body: %v", err)
	}
	wantFiles(t, dir, map[string]string{"out": "host.test "}) // nothing that could not be continued is left
	_, err := s.get(t, Options{URLs: []string{"http://host.test/absent", "http://host.test/gone"}, Dir: dir})
	if err == nil || strings.Count(err.Error(), "404") != 2 || !ServersOnly(err) {
		t.Errorf("%v", err)
	}
	_, err = s.get(t, Options{URLs: []string{"http://host.test/absent", "http://host.test/short"}, Dir: dir})
	if ServersOnly(err) {
		t.Errorf("not only servers failed: %v", err)
	}
	for _, bad := range []Options{
		{URLs: []string{"ftp://x/"}}, {URLs: []string{"x"}}, {URLs: []string{"http://"}}, {URLs: []string{"http://x/"}, Headers: []string{"novalue"}}, {URLs: []string{"http://x/"}, Headers: []string{"A B: x"}}, {URLs: []string{"http://x/"}, Headers: []string{"A: b\r\nC: d"}}, {URLs: []string{"http://x/ %"}},
		{URLs: []string{"http://x/", "http://y/"}, Out: "f"}, {URLs: []string{"http://x/"}, Out: "f", Dir: "d"}, {URLs: []string{"http://x/"}, Continue: true},
		{URLs: []string{"http://x/"}, Out: dir},
	} {
		if _, err := s.get(t, bad); !fault.Is(err, fault.Config) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestNames: several URLs get files of their own, which replace nothing.
func TestNames(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="../evil"`)
		io.WriteString(w, r.URL.String())
	})
	dir := filepath.Join(t.TempDir(), "new")
	_, err := s.get(t, Options{Dir: dir, URLs: []string{
		"http://h.test/a/page?x=1", "http://h.test/b/page", "http://h.test/", "http://h.test", "http://h.test/..%2f..%2fetc%2fpasswd", "http://h.test/..", "http://h.test/.bashrc", "http://h.test/x.part",
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{
		"page": "/a/page?x=1", "page.1": "/b/page", "index.html": "/", "index.html.1": "/", "passwd": "/..%2f..%2fetc%2fpasswd",
		"_._": "/..", "_bashrc": "/.bashrc", "x.part_": "/x.part",
	})
	if _, err := s.get(t, Options{Dir: dir, URLs: []string{"http://h.test/c/page"}}); err != nil || files(t, dir)["page.2"] != "/c/page" {
		t.Error(err, files(t, dir))
	}
}

// TestLinks: a link in the folder that leads out of it is not followed.
func TestLinks(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "new") })
	dir, other := t.TempDir(), t.TempDir()
	victim := filepath.Join(other, "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("old"), 0o600), os.Symlink(victim, filepath.Join(dir, "page")),
		os.Symlink(filepath.Join(other, "made"), filepath.Join(dir, "other.part"))); err != nil {
		t.Fatal(err)
	}
	for _, goOn := range []bool{false, true} {
		_, err := s.get(t, Options{Dir: dir, Continue: goOn, URLs: []string{"http://h.test/page", "http://h.test/other"}})
		if err != nil {
			t.Error(err)
		}
	}
	wantFiles(t, other, map[string]string{"victim": "old"})
	// The user's own link is another thing: its target is replaced.
	link := filepath.Join(dir, "page")
	if _, err := s.get(t, Options{Out: link, URLs: []string{"http://h.test/page"}}); err != nil {
		t.Error(err)
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Error("the link is gone", err)
	}
	wantFiles(t, other, map[string]string{"victim": "new"})
}

// TestRedirects: they are bounded, tell nobody where they come from, and do not lead from
// https to http.
func TestRedirects(t *testing.T) {
	asked := 0
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.Header.Get("Referer") != "" {
			t.Error("the second server hears of the first")
		}
		switch r.URL.Path {
		case "/once":
			http.Redirect(w, r, "http://other.test/end", http.StatusFound)
		case "/end":
			io.WriteString(w, r.Host)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		default:
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		}
	})
	if out, err := s.get(t, Options{URLs: []string{"http://h.test/once"}, Retries: 3}); out != "other.test" || err != nil {
		t.Error(out, err)
	}
	asked = 0
	if _, err := s.get(t, Options{URLs: []string{"http://h.test/loop"}, Retries: 3}); !strings.Contains(fmt.Sprint(err), "10 redirects") || asked != 11 {
		t.Error(err, asked)
	}
	if _, err := s.get(t, Options{URLs: []string{"http://h.test/file"}, Retries: 3}); err == nil {
		t.Error("a redirect to a file")
	}
	g := &getter{}
	from := func(u string) *http.Request { r, _ := http.NewRequest("GET", u, nil); return r }
	if err := g.redirect(from("http://h.test/"), []*http.Request{from("https://h.test/")}); !errors.Is(err, fault.Refused) || !isFinal(err) {
		t.Error(err)
	}
}

// TestContinue: a later run asks for the rest, and only takes the rest of the same
// document.
func TestContinue(t *testing.T) {
	const doc = "0123456789"
	for name, v := range map[string]struct {
		answer http.HandlerFunc // to the second run
		want   string           // the file; empty: the run fails
		says   string           // in a note or an error
	}{
		"the rest": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "bytes=4-" || r.Header.Get("If-Range") != `"a"` {
				t.Errorf("asked for %q of %q", r.Header.Get("Range"), r.Header.Get("If-Range"))
			}
			w.Header().Set("ETag", `"a"`)
			w.Header().Set("Content-Range", "bytes 4-9/10")
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, doc[4:])
		}, doc, ""},
		"another document": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"b"`)
			io.WriteString(w, "new")
		}, "new", "beginning again"},
		"no ranges": {func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, doc) }, doc, "beginning again"},
		"another part": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 3-9/10")
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, doc[3:])
		}, "", "another part"},
		"no range in the answer": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, doc[4:])
		}, "", "another part"},
		"another length": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 4-10/11")
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, doc[4:]+"x")
		}, "", "11 bytes now"},
		"a part of another document": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"b"`)
			w.Header().Set("Content-Range", "bytes 4-9/10")
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, "xxxxxx")
		}, "", "another version"},
		"an error": {func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, "", "404"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first := true
			s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
				if !first {
					v.answer(w, r)
					return
				}
				w.Header().Set("ETag", `"a"`)
				w.Header().Set("Content-Length", "10")
				io.WriteString(w, doc[:4])
			})
			_, err := s.get(t, Options{URLs: []string{"http://h.test/d"}, Out: filepath.Join(dir, "d")})
			if err == nil || !strings.Contains(err.Error(), "4 bytes are in d.part, and --continue goes on") {
				t.Fatal(err)
			}
			first = false
			_, err = s.get(t, Options{URLs: []string{"http://h.test/d"}, Out: filepath.Join(dir, "d"), Continue: true})
			if said := fmt.Sprint(err, s.notes); (err == nil) != (v.want != "") || !strings.Contains(said, v.says) {
				t.Error(said)
			}
			if v.want != "" {
				wantFiles(t, dir, map[string]string{"d": v.want})
			} else if all := files(t, dir); all["d.part"] != doc[:4] || len(all) != 2 {
				t.Errorf("the part is not as it was: %q", all)
			}
		})
	}
}

// TestContinueUnknownLength: where no answer says how long the document is, a part counts
// only if all of it came, and the document is complete only when the server has no more.
func TestContinueUnknownLength(t *testing.T) {
	const doc = "0123456789"
	part := func(w http.ResponseWriter, contentRange, body string) {
		w.Header().Set("ETag", `"a"`)
		w.Header().Set("Content-Range", contentRange)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(http.StatusPartialContent)
		io.WriteString(w, body)
	}
	end := func(w http.ResponseWriter) {
		w.Header().Set("Content-Range", "bytes */10")
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
	}
	for name, v := range map[string]struct {
		parts map[string]func(w http.ResponseWriter) // by the header Range
		want  string                                 // the file; empty: the run fails
		says  string
	}{
		"less than the part": {map[string]func(http.ResponseWriter){
			"bytes=4-": func(w http.ResponseWriter) { part(w, "bytes 4-9/*", doc[4:8]) },
		}, "", "8 bytes came, of 10"},
		"more than the part": {map[string]func(http.ResponseWriter){
			"bytes=4-": func(w http.ResponseWriter) { part(w, "bytes 4-6/*", doc[4:]) },
		}, "", "10 bytes came, of 7"},
		"the rest": {map[string]func(http.ResponseWriter){
			"bytes=4-":  func(w http.ResponseWriter) { part(w, "bytes 4-9/*", doc[4:]) },
			"bytes=10-": end,
		}, doc, ""},
		"in two parts": {map[string]func(http.ResponseWriter){
			"bytes=4-":  func(w http.ResponseWriter) { part(w, "bytes 4-6/*", doc[4:7]) },
			"bytes=7-":  func(w http.ResponseWriter) { part(w, "bytes 7-9/*", doc[7:]) },
			"bytes=10-": end,
		}, doc, ""},
		"in two parts, the second with the length": {map[string]func(http.ResponseWriter){
			"bytes=4-": func(w http.ResponseWriter) { part(w, "bytes 4-6/*", doc[4:7]) },
			"bytes=7-": func(w http.ResponseWriter) { part(w, "bytes 7-9/10", doc[7:]) },
		}, doc, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
				if answer := v.parts[r.Header.Get("Range")]; answer != nil {
					answer(w)
					return
				}
				if r.Header.Get("Range") != "" {
					t.Errorf("asked for %q", r.Header.Get("Range"))
				}
				w.Header().Set("ETag", `"a"`)
				io.WriteString(w, doc[:4])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler) // a document whose length is not said, broken off
			})
			o := Options{URLs: []string{"http://h.test/d"}, Out: filepath.Join(dir, "d")}
			if _, err := s.get(t, o); err == nil {
				t.Fatal("a document that broke off is complete")
			}
			o.Continue = true
			_, err := s.get(t, o)
			if said := fmt.Sprint(err); (err == nil) != (v.want != "") || !strings.Contains(said, v.says) {
				t.Error(said)
			}
			if v.want != "" {
				wantFiles(t, dir, map[string]string{"d": v.want})
			} else if _, ok := files(t, dir)["d"]; ok {
				t.Error("a part has the document's name")
			}
		})
	}
}

// TestContinueNames: a folder is gone through again: complete files are skipped, and parts
// continue where their own URLs are given.
func TestContinueNames(t *testing.T) {
	broken := true
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+r.URL.Path+`"`)
		if broken && r.URL.Path != "/c" {
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "01234")
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("0123456789"))
	})
	dir := t.TempDir()
	urls := []string{"http://h.test/1/a", "http://h.test/2/a", "http://h.test/c"}
	if _, err := s.get(t, Options{URLs: urls, Dir: dir}); err == nil {
		t.Fatal("it did not break")
	}
	if got := files(t, dir); got["a.part"] != "01234" || got["a.1.part"] != "01234" || got["c"] != "0123456789" {
		t.Fatalf("%q", got)
	}
	broken = false
	back := slices.Clone(urls)
	slices.Reverse(back)
	if _, err := s.get(t, Options{URLs: back, Dir: dir, Continue: true}); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"a": "0123456789", "a.1": "0123456789", "c": "0123456789"})
	if len(s.notes) != 1 || s.notes[0] != "c is there already" {
		t.Errorf("%q", s.notes)
	}
	// Nothing is called a part that this package has not made.
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "x.part"), []byte("mine"), 0o600), os.WriteFile(filepath.Join(dir, "c.part"), []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.get(t, Options{URLs: []string{"http://h.test/x"}, Out: filepath.Join(dir, "x"), Continue: true}); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
	if got := files(t, dir); got["x.part"] != "mine" {
		t.Errorf("%q", got)
	}
}

// TestOtherURL: a part is not continued with another URL's bytes.
func TestOtherURL(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"a"`)
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "0123")
	})
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	s.get(t, Options{URLs: []string{"http://user:secret@h.test/one"}, Out: file})
	if info := files(t, dir)["f.part.json"]; !strings.Contains(info, "h.test/one") || strings.Contains(info, "secret") {
		t.Errorf("%q", info)
	}
	if _, err := s.get(t, Options{URLs: []string{"http://h.test/two"}, Out: file, Continue: true}); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "another URL") {
		t.Error(err)
	}
	// Without --continue it begins again.
	if _, err := s.get(t, Options{URLs: []string{"http://h.test/two"}, Out: file}); err == nil || !strings.Contains(err.Error(), "4 bytes are in f.part") {
		t.Error(err)
	}
}

// TestReplacedPart: two runs to one name do not mix.
func TestReplacedPart(t *testing.T) {
	dir := t.TempDir()
	part := filepath.Join(dir, "f.part")
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "0123")
		if err := errors.Join(os.Remove(part), os.WriteFile(part, []byte("half"), 0o600)); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.get(t, Options{URLs: []string{"http://h.test/f"}, Out: filepath.Join(dir, "f")}); !fault.Is(err, fault.Local) || !strings.Contains(err.Error(), "another program") {
		t.Error(err)
	}
	if _, ok := files(t, dir)["f"]; ok {
		t.Error("half a file got the name")
	}
}
