package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ports"
)

// runChive runs a command line.
func runChive(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	root := Chive()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(io.Discard)
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

func TestFTETools(t *testing.T) {
	out, err := runChive(t.Context(), "fte", "formats")
	if err != nil || strings.Count(out, "\n") != 1+2*23 || !strings.Contains(out, "words-response") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = runChive(t.Context(), "fte", "test", "--format", "hex", "--bytes", "50000")
	if err != nil || strings.Count(out, "the same at the other end") != 4 {
		t.Errorf("%v\n%s", err, out)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	first, err := runChive(t.Context(), "fte", "keygen", keys)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runChive(t.Context(), "fte", "keygen", keys); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(keys)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := fte.ParseServerKeys(f)
	if err != nil || len(all) != 2 || all[1].Cert().Line() != strings.TrimSpace(first) {
		t.Errorf("the first key isn't the second line: %v", err)
	}
}

func TestFTERefuses(t *testing.T) {
	for _, args := range [][]string{
		{"--mode", "both"}, {"--protocol", "other"}, {"--upstream-format", "words"}, {"--upstream-format", "nosuch-request"},
		{"--upstream-format", "words-request", "--downstream-format", "hex-response"}, {"--key", "ff"},
		{"--protocol", "chive"}, {"--protocol", "chive", "--mode", "server"}, {"--release", "19990101"}, {"--http"},
		{"--stop"}, {"--http-proxy", "http://127.0.0.1:3128"},
	} {
		if _, err := runChive(t.Context(), append([]string{"fte"}, args...)...); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	// Flags without effect, or with a wrong value: the error names the last flag.
	for _, args := range [][]string{
		{"--pq"}, {"--chacha"}, {"--cert", "x"}, {"--wire", "bulk"}, {"--pad-to", "64"}, {"--delay", "1ms"}, {"--decoy", "127.0.0.1:80"},
		{"--protocol", "chive", "--mode", "server", "--pq"}, {"--protocol", "chive", "--key", strings.Repeat("0", 64)},
		{"--max-handshakes", "9"}, {"--max-connections", "0"}, {"--mode", "server", "--max-handshakes", "-1"}, {"--drain", "-1s"},
		{"--mode", "server", "--handshake-timeout", "0s"},
		{"--release", "20131224", "--definitions", "20131224.json"},
	} {
		last := args[len(args)-1]
		if !strings.HasPrefix(last, "--") {
			last = args[len(args)-2]
		}
		if _, err := runChive(t.Context(), append([]string{"fte"}, args...)...); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), last) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// freePort returns a port that stays free until the program under test opens it.
func freePort(t *testing.T) string {
	t.Helper()
	leases := new(ports.Leases)
	t.Cleanup(leases.Release)
	port, err := leases.Take(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(int(port))
}

// TestFTEProxy runs a client and a server of each kind, over IPv4 and IPv6 and
// with fteproxy's spelling of the flags, reads the server's metrics, and ends
// both by an interrupt.
func TestFTEProxy(t *testing.T) {
	six, err := net.Listen("tcp", "[::1]:0")
	if err == nil {
		six.Close()
	}
	keys := filepath.Join(t.TempDir(), "keys")
	cert, err := runChive(t.Context(), "fte", "keygen", keys)
	if err != nil {
		t.Fatal(err)
	}
	cert = strings.TrimSpace(cert)
	for name, v := range map[string][3][]string{
		"classic": {{"--upstream-format", "words-request"}},
		"chive":   {{"--protocol", "chive"}, {"--cert", cert}, {"--key-file", keys}},
		"http":    {{"--protocol", "chive", "--http"}, {"--cert", cert}, {"--key-file", keys}},
		"ipv6":    {{"--upstream-format", "hex-request", "--server_ip", "::1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "ipv6" && six == nil {
				t.Skip("SKIPPED, NOT PROVEN: this machine has no IPv6")
			}
			echo, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer echo.Close()
			go func() {
				for {
					c, err := echo.Accept()
					if err != nil {
						return
					}
					go func() { io.Copy(c, c); c.Close() }()
				}
			}()
			_, behind, _ := net.SplitHostPort(echo.Addr().String())
			server, client, counts := freePort(t), freePort(t), "127.0.0.1:"+freePort(t)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 2)
			base := append([]string{"fte", "--quiet", "--server_port", server, "--drain", "1s"}, v[0]...)
			go func() {
				_, err := runChive(ctx, append(append(base[:len(base):len(base)], v[2]...), "--mode", "server", "--proxy_port", behind, "--metrics", counts, "--metrics-host", "fte.example")...)
				ended <- err
			}()
			go func() {
				_, err := runChive(ctx, append(append(base[:len(base):len(base)], v[1]...), "--mode", "client", "--client_port", client)...)
				ended <- err
			}()
			msg := []byte(strings.Repeat("what comes back ", 500))
			await(t, "both listen, and the bytes come back", func() bool { return bytes.Equal(ask(client, msg), msg) })
			text := scrape(t, counts, "fte.example")
			for _, want := range []string{"chive_fte_accepted_total", "chive_fte_failed_total", "chive_fte_pending", "chive_fte_active", "chive_panics_total"} {
				if !strings.Contains(text, "\n"+want+" ") {
					t.Errorf("metrics lack %s:\n%s", want, text)
				}
			}
			if !strings.Contains(text, "# TYPE chive_fte_opened_total counter\n") || !strings.Contains(text, "# TYPE chive_fte_active gauge\n") {
				t.Errorf("metrics of other kinds:\n%s", text)
			}
			if strings.Contains(text, "\nchive_fte_opened_total 0\n") || strings.Contains(text, "127.0.0.1") {
				t.Errorf("metrics count no handshake, or tell an address:\n%s", text)
			}
			cancel()
			for range 2 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// shortOnce is a listener that fails once, as when the kernel has no memory.
type shortOnce struct {
	net.Listener
	failed atomic.Bool
}

func (l *shortOnce) Accept() (net.Conn, error) {
	if l.failed.CompareAndSwap(false, true) {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.ENOBUFS)}
	}
	return l.Listener.Accept()
}

// TestFTEHTTPShortage: a server over HTTP outlives a shortage.
func TestFTEHTTPShortage(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fteFlags{handshake: time.Minute}
	_, server := f.serveHTTP(&shortOnce{Listener: l}, nil, new(fte.Stats), slog.New(slog.DiscardHandler))
	defer server.Close()
	r, err := http.Get("http://" + l.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
}

// scrape returns the metrics at addr.
func scrape(t *testing.T, addr, host string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ask sends msg and returns what comes back.
func ask(port string, msg []byte) []byte {
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		return nil
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	go c.Write(msg)
	got := make([]byte, len(msg))
	n, _ := io.ReadFull(c, got)
	return got[:n]
}

// TestFTEHTTPConnections: the number of HTTP connections is bounded,
// independently of what they send; above the bound, the oldest is closed.
func TestFTEHTTPConnections(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	if _, err := runChive(t.Context(), "fte", "keygen", keys); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := runChive(ctx, "fte", "--quiet", "--mode", "server", "--protocol", "chive", "--http", "--key-file", keys,
			"--server-port", port, "--max-connections", "1", "--max-handshakes", "1")
		ended <- err
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return nil
		}
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		return c
	}
	answered := func(c net.Conn, within time.Duration) bool {
		c.SetReadDeadline(time.Now().Add(within))
		n, _ := c.Read(make([]byte, 1))
		return n == 1
	}
	var first net.Conn
	await(t, "the server listens", func() bool { first = dial(); return first != nil })
	second := dial()
	defer second.Close()
	for _, c := range []net.Conn{first, second} {
		if !answered(c, time.Minute) {
			t.Fatal("no answer within the bound")
		}
	}
	third := dial()
	defer third.Close()
	if !answered(third, time.Minute) {
		t.Error("no answer to a newer connection")
	}
	defer first.Close()
	first.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, first); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the oldest connection is still open beyond the bound")
	}
}

// TestFTEPublicKey: chive fte says by a warning, in its help and in its metrics that the key
// is public; with a key of one's own, or another protocol, it does not.
func TestFTEPublicKey(t *testing.T) {
	own := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(own, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	if _, err := runChive(t.Context(), "fte", "keygen", keys); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args   []string
		public bool
	}{
		"no key":          {nil, true},
		"its key by name": {[]string{"--key", fte.DefaultKey.Hex()}, true},
		"a key":           {[]string{"--key-file", own}, false},
		"chive":           {[]string{"--protocol", "chive", "--mode", "server", "--key-file", keys}, false},
	} {
		metrics := "127.0.0.1:" + freePort(t)
		ctx, cancel := context.WithCancel(t.Context())
		root := Chive()
		root.SetArgs(append([]string{"fte", "--client-port", freePort(t), "--server-port", freePort(t), "--metrics", metrics}, c.args...))
		r, w := io.Pipe()
		root.SetErr(w)
		done := make(chan error, 1)
		go func() { done <- root.ExecuteContext(ctx); w.Close() }()
		var log strings.Builder
		lines := bufio.NewScanner(r)
		for lines.Scan() && !strings.Contains(lines.Text(), "msg=ready") {
			log.WriteString(lines.Text())
		}
		if warned := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "public"); warned != c.public {
			t.Errorf("%s: the log: %s", name, log.String())
		}
		resp, err := http.Get("http://" + metrics + "/metrics")
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, log.String())
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || strings.Contains(string(text), "\nchive_fte_public_key 1") != c.public || strings.Contains(string(text), "\nchive_fte_public_key 0") == c.public {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		cancel()
		go io.Copy(io.Discard, r)
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if help, err := runChive(t.Context(), "fte", "--help"); err != nil || !strings.Contains(help, "built-in key, which is\npublic") {
		t.Errorf("%v\n%s", err, help)
	}
}
