package daemon

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/localhttp"
	"github.com/chivenet/chive/internal/localhttp/guardtest"
)

func quietProfiles(t *testing.T) func(l net.Listener) func() {
	return func(l net.Listener) func() {
		return serveProfiles(l, profiles(), slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
	}
}

// TestProfilesGuard: the port answers programs of this machine, and no web page.
func TestProfilesGuard(t *testing.T) {
	guardtest.Walk(t, guardtest.Port{Line: "GET /debug/pprof/heap HTTP/1.1", OK: "HTTP/1.1 200 ", Serve: quietProfiles(t)})
}

func TestCheckProfiles(t *testing.T) {
	for s, want := range map[string]string{
		"127.0.0.1:6060": "", "6060": "", "[::1]:0": "", "127.9.9.9:1": "", "unix:/run/chive/profiles": "", "[::ffff:127.0.0.1]:1": "",
		"0.0.0.0:6060": "for this machine only", "[::]:6060": "for this machine only", "192.0.2.1:6060": "for this machine only", "[2001:db8::1]:1": "for this machine only",
		"localhost:6060": "is not a port", "unix:": "has no path", "": "is not a port", ":6060": "is not a port",
	} {
		if err := checkProfiles(s); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", s, err, want)
		}
	}
	if _, _, err := openProfiles("0.0.0.0:0", slog.New(slog.DiscardHandler), nil); err == nil || !strings.Contains(err.Error(), "for this machine only") {
		t.Error(err)
	}
}

// TestProfileTakesItsTime: a profile may take longer than a local port gives a request, makes no room
// for others, and ends when its asker goes away or the port closes. This one compares two
// of the heap, because the kernel's clock of a CPU profile stops no virtual time.
func TestProfileTakesItsTime(t *testing.T) {
	const ask = "GET /debug/pprof/heap?seconds=200 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	bubble := func(name string, f func(t *testing.T, l *guardtest.Listener, stop func(), ended <-chan time.Time)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, ended, h := guardtest.NewListener(), make(chan time.Time, 1), profiles()
				stop := serveProfiles(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					h.ServeHTTP(w, r)
					ended <- time.Now()
				}), slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
				defer stop()
				f(t, l, stop, ended)
			})
		})
	}
	bubble("all of it", func(t *testing.T, l *guardtest.Listener, _ func(), _ <-chan time.Time) {
		start := time.Now()
		c := l.Dial()
		go io.WriteString(c, ask)
		synctest.Wait()
		for range localhttp.MaxOpen {
			l.Dial()
		}
		got, err := io.ReadAll(c)
		if took := time.Since(start); err != nil || took != 200*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		_, body, _ := bytes.Cut(got, []byte("\r\n\r\n"))
		if !bytes.HasPrefix(got, []byte("HTTP/1.1 200 ")) || len(body) == 0 {
			t.Errorf("%.200q", got)
		}
	})
	bubble("refused", func(t *testing.T, l *guardtest.Listener, _ func(), ended <-chan time.Time) {
		c := l.Dial()
		go io.WriteString(c, strings.Replace(ask, "\r\n\r\n", "\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n", 1))
		if got, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(got, []byte("HTTP/1.1 400 ")) {
			t.Errorf("a body: %v, %.200q", err, got)
		}
		<-ended
		for _, seconds := range []string{"301", "1e9", "NaN", "-1", "x"} {
			c := l.Dial()
			go io.WriteString(c, strings.Replace(ask, "200", seconds, 1))
			if got, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(got, []byte("HTTP/1.1 400 ")) {
				t.Errorf("%s: %v, %.200q", seconds, err, got)
			}
			<-ended
		}
	})
	for name, leave := range map[string]func(c net.Conn, stop func()){
		"the asker goes":  func(c net.Conn, _ func()) { c.Close() },
		"the port closes": func(_ net.Conn, stop func()) { stop() },
	} {
		bubble(name, func(t *testing.T, l *guardtest.Listener, stop func(), ended <-chan time.Time) {
			c := l.Dial()
			go io.WriteString(c, ask)
			synctest.Wait()
			left := time.Now()
			leave(c, stop)
			if at := <-ended; at.Sub(left) > time.Second {
				t.Errorf("it ended %v after that", at.Sub(left))
			}
		})
	}
}

// TestProfiles takes profiles of a running process, with go tool pprof as an operator does.
func TestProfiles(t *testing.T) {
	r := run(t, web(t), "--profiles", "127.0.0.1:0")
	r.port(t, "socks")
	at := "http://" + r.port(t, "profiles") + "/debug/pprof/"
	for name, want := range map[string]string{"heap": "inuse_space", "profile?seconds=1": "Type: cpu", "goroutine": "daemon"} {
		cmd := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-top", "-nodecount=2000", at+name)
		cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir(), "PPROF_BINARY_PATH="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	ask := func(host, name string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", at+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	for _, name := range []string{"heap", "profile?seconds=1", "goroutine", "trace", "cmdline"} {
		if code, _ := ask("page.example", name); code != http.StatusForbidden {
			t.Errorf("%s by another host: %d", name, code)
		}
	}
	for _, name := range []string{"cmdline", "symbol", "", "other"} {
		if code, _ := ask("localhost", name); code != http.StatusNotFound {
			t.Errorf("%s: %d", name, code)
		}
	}
	for _, name := range []string{"allocs", "block", "mutex", "threadcreate", "heap"} {
		code, body := ask("localhost", name)
		if code != http.StatusOK {
			t.Errorf("%s: %d", name, code)
			continue
		}
		if z, err := gzip.NewReader(strings.NewReader(body)); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if _, err := io.ReadAll(z); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
	if n := runtime.SetMutexProfileFraction(-1); n != 0 {
		t.Errorf("one of %d waits for locks is still sampled", n)
	}
}

// TestProfilesOfASocket: the port may be a socket, which goes with the process, and a confined process
// may remove it. Nothing is open by default.
func TestProfilesOfASocket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("unix sockets have other names there")
	}
	path := filepath.Join(t.TempDir(), "profiles")
	r := run(t, web(t), "--profiles", "unix:"+path)
	r.port(t, "socks")
	if got := r.port(t, "profiles"); got != path {
		t.Errorf("%q", got)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /debug/pprof/heap HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(got, []byte("HTTP/1.1 200 ")) {
		t.Errorf("%v, %.200q", err, got)
	}
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket stays: %v", err)
	}
	if got := (confinement{}).sockets("", "127.0.0.1:1", "unix:"+path).write; !slices.Equal(got, []string{filepath.Dir(path)}) {
		t.Errorf("%q", got)
	}
}
