package fte

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ports"
)

const fteproxyVersion = "0.3.2"

// missing skips a test whose program is missing, and fails it when the
// environment says that every peer is there.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CHIVE_INTEROP") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf("SKIPPED, NOT PROVEN: "+format, args...)
}

var fteproxy = sync.OnceValues(func() (string, error) {
	if p := os.Getenv("CHIVE_FTEPROXY"); p != "" {
		return p, nil
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "chive-interop", "fteproxy-"+fteproxyVersion)
	bin := filepath.Join(dir, "bin", "fteproxy")
	mark := filepath.Join(dir, "complete")
	if _, err := os.Stat(mark); err == nil {
		return bin, nil
	}
	if out, err := exec.Command(python, "-m", "venv", "--clear", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("making a venv: %w: %s", err, out)
	}
	pip := exec.Command(filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "--retries", "10", "fteproxy=="+fteproxyVersion)
	if out, err := pip.CombinedOutput(); err != nil {
		return "", fmt.Errorf("installing fteproxy: %w: %s", err, out)
	}
	return bin, os.WriteFile(mark, nil, 0o600)
})

// freePort returns a port that nothing listens on, and that is the test's own
// until it ends.
func freePort(t testing.TB) int {
	t.Helper()
	var l ports.Leases
	t.Cleanup(l.Release)
	port, err := l.Take(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	return int(port)
}

// lineWaiter is a program's output, and tells when a text has appeared in it.
type lineWaiter struct {
	mu   sync.Mutex
	b    bytes.Buffer
	want string
	seen chan struct{}
	done bool
}

func (w *lineWaiter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b.Write(p)
	if !w.done && strings.Contains(w.b.String(), w.want) {
		w.done = true
		close(w.seen)
	}
	return len(p), nil
}

// fteproxyTime is how long fteproxy has to start: it computes tables first.
const fteproxyTime = 3 * time.Minute

// startFteproxy runs the real fteproxy until the test ends.
func startFteproxy(t testing.TB, args ...string) {
	t.Helper()
	bin, err := fteproxy()
	if err != nil {
		missing(t, "fteproxy %s: %v", fteproxyVersion, err)
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1", "TMPDIR="+t.TempDir())
	out := &lineWaiter{want: "ready!", seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		missing(t, "fteproxy: %v", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-exited:
		case <-time.After(5 * time.Second):
			cmd.Process.Kill()
			<-exited
		}
		if t.Failed() {
			out.mu.Lock()
			t.Logf("fteproxy said: %s", out.b.String())
			out.mu.Unlock()
		}
	})
	select {
	case <-out.seen:
	case err := <-exited:
		exited <- err
		t.Fatalf("fteproxy ended: %v", err)
	case <-time.After(fteproxyTime):
		t.Fatalf("fteproxy isn't ready after %v", fteproxyTime)
	}
}

// dialReady waits until something listens on a port: fteproxy says that it is
// ready shortly before it binds.
func dialReady(t testing.TB, addr string) {
	t.Helper()
	end := time.Now().Add(fteproxyTime)
	for time.Now().Before(end) {
		if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			c.Close()
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the test is over")
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatalf("nothing listens on %s", addr)
}

const exchangeSize = 10 << 20

// classicInterop is every format that fteproxy 0.3.2 can run.
var classicInterop = []string{
	"manual-http", "dummy", "http-simple", "ssh", "tls-sni", "smtp", "ftp",
	"lowercase", "uppercase", "alphanumeric", "hex", "digits", "binary", "base64",
	"words", "sentences", "ip-address", "domain", "url-path", "key-value", "csv",
	"email-simple", "timestamp",
}

// TestInteropFteproxyClient has real fteproxy clients talk to Chive's server.
func TestInteropFteproxyClient(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT PROVEN: real peers aren't run with -short")
	}
	upstream := exchangeServer(t, exchangeSize)
	srv, err := Classic{}.Acceptor()
	if err != nil {
		t.Fatal(err)
	}
	l := NewListener(loopback(t), ListenConfig{Transport: srv})
	startProxy(t, &Proxy{Dial: dialTo(upstream.Addr().String())}, l)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, name := range classicInterop {
		t.Run(name, func(t *testing.T) {
			mine := strconv.Itoa(freePort(t))
			startFteproxy(t, "--mode", "client", "--client_port", mine, "--server_port", port,
				"--upstream-format", name+"-request", "--downstream-format", name+"-response")
			dialReady(t, "127.0.0.1:"+mine)
			exchange(t, "127.0.0.1:"+mine, exchangeSize)
		})
	}
}

// TestInteropFteproxyServer has Chive's client talk to real fteproxy servers.
func TestInteropFteproxyServer(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT PROVEN: real peers aren't run with -short")
	}
	upstream := exchangeServer(t, exchangeSize)
	_, behind, _ := net.SplitHostPort(upstream.Addr().String())
	for _, name := range classicInterop {
		t.Run(name, func(t *testing.T) {
			port := strconv.Itoa(freePort(t))
			startFteproxy(t, "--mode", "server", "--server_port", port, "--proxy_port", behind,
				"--upstream-format", name+"-request", "--downstream-format", name+"-response")
			dialReady(t, "127.0.0.1:"+port)
			cli, err := Classic{Format: name}.Dialer()
			if err != nil {
				t.Fatal(err)
			}
			l := loopback(t)
			startProxy(t, &Proxy{Dial: dialTo("127.0.0.1:" + port), Dialed: cli}, l)
			exchange(t, l.Addr().String(), exchangeSize)
		})
	}
}
