package daemon

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

func TestGet(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			_, agent := r.Header["User-Agent"]
			w.Write([]byte(r.Host + " " + r.Header.Get("X-A")))
			if agent {
				w.Write([]byte(" agent"))
			}
		case "/short":
			w.Header().Set("Content-Length", "100")
			w.Write([]byte("short"))
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // the environment has no say
	var dialled []string
	get := func(o GetOptions) (string, error) {
		var b strings.Builder
		o.Stdout = &b
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialled = append(dialled, addr)
			return new(net.Dialer).DialContext(ctx, network, srv.Listener.Addr().String())
		}
		err := Get(t.Context(), o)
		return b.String(), err
	}
	if out, err := get(GetOptions{URL: "http://host.test/echo", Headers: []string{"X-A: b"}}); out != "host.test b" || err != nil || dialled[0] != "host.test:80" {
		t.Errorf("%q %v %q", out, err, dialled)
	}
	if out, err := get(GetOptions{URL: "http://host.test/echo", Headers: []string{"Host: other"}}); out != "other " || err != nil {
		t.Errorf("%q %v", out, err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "out")
	if out, err := get(GetOptions{URL: "http://host.test/echo", Out: file}); out != "" || err != nil {
		t.Errorf("%q %v", out, err)
	}
	if b, err := os.ReadFile(file); string(b) != "host.test " || err != nil {
		t.Errorf("%q %v", b, err)
	}
	if _, err := get(GetOptions{URL: "http://host.test/short", Out: file}); !fault.Is(err, fault.Network) {
		t.Errorf("a truncated body: %v", err)
	}
	if b, _ := os.ReadFile(file); string(b) != "host.test " {
		t.Errorf("half a download replaced the file: %q", b)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("files are left behind: %v", left)
	}
	if _, err := get(GetOptions{URL: "http://host.test/absent"}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%v", err)
	}
	for _, bad := range []GetOptions{
		{URL: "ftp://x/"}, {URL: "x"}, {URL: "http://"}, {URL: "http://x/", Headers: []string{"novalue"}}, {URL: "http://x/ %"},
	} {
		if _, err := get(bad); !fault.Is(err, fault.Config) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
