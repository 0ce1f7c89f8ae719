package program_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/program"
	"github.com/chivenet/chive/program/programtest"
)

// TestLockDir: one program at a time uses a directory, and the next one may when it has ended.
func TestLockDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	lock, err := program.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := program.LockDir(dir); !errors.Is(err, program.ErrInUse) || !errors.Is(err, chive.ErrConfig) || second != nil {
		t.Errorf("the second program: %v, %v", second, err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if lock, err = program.LockDir(dir); err != nil {
		t.Fatal("after Close:", err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
}

// TestFiles: a file is replaced as a whole, with its mode, and is read up to a bound.
func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	for _, text := range []string{"first", "second"} {
		if err := program.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, read := range map[string]func(string, int) ([]byte, error){"ReadFile": program.ReadFile, "ReadRegular": program.ReadRegular} {
		if b, err := read(path, 6); err != nil || string(b) != "second" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		if b, err := read(path, 5); !errors.Is(err, chive.ErrConfig) {
			t.Errorf("%s beyond its bound: %q, %v", name, b, err)
		}
		if _, err := read(path+"x", 5); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of no file: %v", name, err)
		}
	}
	if _, err := program.ReadRegular(os.DevNull, 5); err == nil {
		t.Error("a device was read as a regular file")
	}
	if err := program.WriteFile(filepath.Join(path, "below"), nil, 0o600); !errors.Is(err, chive.ErrLocal) {
		t.Error(err)
	}
}

// TestListenLoopback: only addresses of loopback are ports, and names are not looked up.
func TestListenLoopback(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "localhost:0", "192.0.2.1:0", "127.0.0.1"} {
		if l, err := program.ListenLoopback(addr); !errors.Is(err, chive.ErrConfig) {
			if l != nil {
				l.Close()
			}
			t.Errorf("%s: %v", addr, err)
		}
	}
	l, err := program.ListenLoopback("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := program.ListenLoopback(l.Addr().String()); !errors.Is(err, chive.ErrLocal) || !strings.Contains(err.Error(), "another program has this port") {
		t.Errorf("a port in use: %v", err)
	}
}

// TestListenUnix: a socket that is served is not replaced, and one that nobody serves is.
func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := program.ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program.ListenUnix(path); err == nil {
		t.Error("a socket in use was replaced")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if l, err = program.ListenUnix(path); err != nil {
		t.Fatal("a socket that nobody serves:", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestPeerOf: an IPv6 /64 is one peer, and an end without an address is one peer with all such ends.
func TestPeerOf(t *testing.T) {
	for addr, want := range map[net.Addr]string{
		&net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 1}:                      "192.0.2.1/32",
		&net.TCPAddr{IP: net.ParseIP("2001:db8::1:2"), Port: 1}:                  "2001:db8::/64",
		&net.UnixAddr{Name: "/run/s", Net: "unix"}:                               "invalid Prefix",
		net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[::ffff:192.0.2.7]:5")): "192.0.2.7/32",
	} {
		if got := program.PeerOf(addr).String(); got != want {
			t.Errorf("%v: %s, want %s", addr, got, want)
		}
	}
	if got := program.PeerOf(nil); got.IsValid() {
		t.Errorf("no address: %v", got)
	}
}

// TestMetrics: the port shows what the functions return, and is behind the guard.
func TestMetrics(t *testing.T) {
	m := program.NewMetrics()
	var answered atomic.Uint64
	answered.Add(3)
	m.Counter(`app_answers_total{kind="a"}`, "Answers.", answered.Load)
	m.Gauge("app_peers", "Peers.", func() int64 { return -2 })
	var text strings.Builder
	if err := m.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\napp_answers_total{kind=\"a\"} 3\n", "\napp_peers -2\n", "chive_panics_total 0\n"} {
		if !strings.Contains("\n"+text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if got := m.Table("app run"); !strings.Contains(got, "| `app_answers_total` | counter | `kind`: a |") || !strings.Contains(got, "`app run` |") {
		t.Errorf("the table:\n%s", got)
	}
	programtest.WalkHTTP(t, programtest.HTTPPort{
		Line: "GET /metrics HTTP/1.1", OK: "HTTP/1.1 200 ", Names: []string{"app.example"},
		Serve: func(l net.Listener) func() {
			ctx, cancel := context.WithCancel(context.Background())
			var all sync.WaitGroup
			all.Go(func() {
				s := &program.HTTPServer{Handler: m, Guard: program.Guard{Names: []string{"app.example"}}, Name: "metrics"}
				if err := s.Serve(ctx, l); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			return func() { cancel(); all.Wait() }
		},
	})
}

// TestExtension: the guard of a port knows the extensions that it is given.
func TestExtension(t *testing.T) {
	const own = "chrome-extension://abcdefghijklmnopabcdefghijklmnop"
	if err := program.CheckExtension(own); err != nil {
		t.Error(err)
	}
	if err := program.CheckExtension("https://page.example"); !errors.Is(err, chive.ErrConfig) {
		t.Errorf("a page is an extension: %v", err)
	}
	l := programtest.NewListener()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- (&program.HTTPServer{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { defer program.KeepConn(r.Context())() }),
			Guard:   program.Guard{Loopback: true, NoPages: true, Extensions: []string{own}},
		}).Serve(ctx, l)
	}()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return l.Dial(), nil }}}
	for origin, want := range map[string]int{own: http.StatusOK, own + "x": http.StatusForbidden} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", origin)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", origin, resp.StatusCode, want)
		}
	}
	cancel()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestContain: a panic ends what it was in, is told, and is counted.
func TestContain(t *testing.T) {
	programtest.ExpectPanics(t, 1)
	var b bytes.Buffer
	var failed error
	program.Contain(program.NewLog(slog.LevelInfo, &b), func(err error) { failed = err }, func() { panic("a mistake") })()
	if !errors.Is(failed, chive.ErrLocal) || !strings.Contains(b.String(), "panic") {
		t.Errorf("%v; the log: %s", failed, b.String())
	}
}

// TestWhy: the names that a message has said already are not said twice.
func TestWhy(t *testing.T) {
	_, err := os.Open(filepath.Join(t.TempDir(), "absent"))
	if why := program.Why(err); why != syscall.ENOENT {
		t.Errorf("%v", why)
	}
	other := errors.New("other")
	if program.Why(other) != other || program.Version() == "" {
		t.Error("an error of no system call is another one, or there is no version")
	}
}
