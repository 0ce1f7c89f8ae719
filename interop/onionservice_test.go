package interop

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
)

// host starts a Chive client in this process on a network.
func host(t *testing.T, nw *ctor.Network) (*chive.Client, *logText) {
	t.Helper()
	return hostAs(t, nw, chive.AppearanceCommon)
}

// hostAs is host with an appearance.
func hostAs(t *testing.T, nw *ctor.Network, appearance chive.Appearance) (*chive.Client, *logText) {
	t.Helper()
	text, err := nw.NetworkFile()
	if err != nil {
		t.Fatal(err)
	}
	n, err := chive.ParseNetwork(text)
	if err != nil {
		t.Fatal(err)
	}
	told := new(logText)
	log := slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), told), &slog.HandlerOptions{Level: slog.LevelDebug}))
	c, err := chive.New(chive.Config{Network: n, DataDir: t.TempDir(), Logger: log, Appearance: appearance})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, told
}

// logText is a log that is read while it grows.
type logText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func serve(t *testing.T, c *chive.Client, cfg chive.OnionConfig) *chive.OnionListener {
	t.Helper()
	l, err := c.Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := l.WaitPublished(bounded(t, patience)); err != nil {
		t.Fatal(err)
	}
	t.Logf("published after %v", time.Since(began).Round(time.Millisecond))
	return l
}

// TestOnionService has Chive host a service in a network of stock C tor, and stock
// clients use it.
func TestOnionService(t *testing.T) {
	t.Parallel()
	nw := ctortest.Network(t, ctor.Options{Authorities: 3, Relays: 4, Exits: 2, Clients: 1})
	proxy := nw.Node("client0").SOCKS
	c, told := host(t, nw)
	dir := t.TempDir() + "/service"
	l := serve(t, c, chive.OnionConfig{KeyDir: dir, Ports: []int{7}, Targets: map[int]string{80: shared.target.Addr(target.Web)}})

	t.Run("a page", func(t *testing.T) {
		const size = 10 << 20
		began := time.Now()
		sum, n := fetchHosted(t, proxy, fmt.Sprintf("http://%s/bytes/%d", l.Address(), size))
		if n != size || sum != target.Sum(size) {
			t.Errorf("%d bytes, SHA-256 %x", n, sum)
		}
		took := time.Since(began)
		t.Logf("%d bytes in %v: %.1f MB/s", n, took.Round(time.Millisecond), float64(n)/took.Seconds()/1e6)
	})
	t.Run("connects", func(t *testing.T) {
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					fmt.Fprintf(conn, "circuit %d port %d", conn.(*chive.OnionConn).Circuit(), conn.(*chive.OnionConn).Port())
				}()
			}
		}()
		circuits := map[string]bool{}
		for i := range 20 {
			d := socksclient.Dialer{Proxy: proxy.String(), User: fmt.Sprint("user", i), Pass: "x"}
			conn, err := d.DialContext(bounded(t, patience), "tcp", l.Address()+":7")
			if err != nil {
				t.Errorf("connection %d: %v", i, err)
				continue
			}
			b, err := io.ReadAll(conn)
			conn.Close()
			if err != nil || len(b) == 0 {
				t.Errorf("connection %d: %q %v", i, b, err)
			}
			circuits[string(b)] = true
		}
		if len(circuits) != 20 {
			t.Errorf("20 isolated clients came over %d circuits", len(circuits))
		}
	})
	t.Run("unknown port", func(t *testing.T) {
		d := socksclient.Dialer{Proxy: proxy.String()}
		held, err := d.DialContext(bounded(t, patience), "tcp", l.Address()+":80")
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		if conn, err := d.DialContext(bounded(t, patience), "tcp", l.Address()+":81"); err == nil {
			conn.Close()
			t.Error("it is open")
		}
		_ = held.SetDeadline(time.Now().Add(patience)) // never fails
		var late net.Error
		if _, err := held.Read(make([]byte, 1)); err == nil || errors.As(err, &late) && late.Timeout() {
			t.Errorf("another connection of the client goes on: %v", err)
		}
		fetchHosted(t, proxy, fmt.Sprintf("http://%s/bytes/10", l.Address()))
	})
	t.Run("stem", func(t *testing.T) { stemReads(t, nw.Node("client0"), l.Address(), "") })
	t.Run("authorization", func(t *testing.T) { authorized(t, nw, c) })
	t.Run("moves", func(t *testing.T) { moves(t, nw, c) })
	t.Run("command", func(t *testing.T) { served(t, nw) })
	t.Run("no warnings", func(t *testing.T) {
		for _, n := range nw.Nodes {
			w, err := n.Warnings(0)
			if err != nil {
				t.Error(err)
			}
			for _, line := range w {
				t.Errorf("%s: %s", n.Name, line)
			}
		}
		for _, bad := range []string{"level=WARN", "level=ERROR", "was dropped"} {
			if said := told.String(); strings.Contains(said, bad) {
				t.Errorf("Chive's log has %q:\n%s", bad, said)
			}
		}
	})
}

// authorized holds a service for one client to its word: a client with the key gets a
// page, one with another key or none gets nothing.
func authorized(t *testing.T, nw *ctor.Network, c *chive.Client) {
	dir := t.TempDir() + "/service"
	k, err := hsservice.OpenKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	good, bad := t.TempDir(), t.TempDir()
	file := good + "/alice.auth_private"
	if _, err := hsservice.AddClient(dir, "alice", "", hsservice.SavePrivate(file)); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, private, err := hsservice.NewClient(k.Address())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad+"/mallory.auth_private", []byte(private), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{good, bad} {
		if err := os.Chmod(d, 0o700); err != nil { // as C tor asks
			t.Fatal(err)
		}
	}
	l := serve(t, c, chive.OnionConfig{KeyDir: dir, Targets: map[int]string{80: shared.target.Addr(target.Web)}})
	defer l.Close()
	url := fmt.Sprintf("http://%s/bytes/1000", l.Address())
	alice := newStock(t, nw, "ClientOnionAuthDir "+good)
	if sum, n := fetchHosted(t, alice.SOCKS, url); n != 1000 || sum != target.Sum(1000) {
		t.Errorf("%d bytes", n)
	}
	stemReads(t, alice, l.Address(), string(key))
	mallory := newStock(t, nw, "ClientOnionAuthDir "+bad)
	for _, n := range []*ctor.Node{mallory, nw.Node("client0")} {
		d := socksclient.Dialer{Proxy: n.SOCKS.String()}
		if conn, err := d.DialContext(bounded(t, patience), "tcp", l.Address()+":80"); err == nil {
			conn.Close()
			t.Errorf("%s is let in", n.Name)
		}
	}
}

// newStock starts one more C tor.
func newStock(t *testing.T, nw *ctor.Network, extra ...string) *ctor.Node {
	t.Helper()
	n, err := nw.AddClient(bounded(t, patience), "", extra...)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.AwaitBootstrap(bounded(t, patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			return // its log is told
		}
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// fetchHosted fetches a page through a SOCKS port.
func fetchHosted(t *testing.T, proxy netip.AddrPort, url string) (sum [32]byte, n int64) {
	t.Helper()
	return fetchHostedAs(t, socksclient.Dialer{Proxy: proxy.String()}, url)
}

// fetchHostedAs is fetchHosted, with credentials for SOCKS: others have another circuit.
func fetchHostedAs(t *testing.T, d socksclient.Dialer, url string) (sum [32]byte, n int64) {
	t.Helper()
	tr := &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(bounded(t, patience), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	h := sha256.New()
	if n, err = io.Copy(h, resp.Body); err != nil {
		t.Fatal(err)
	}
	h.Sum(sum[:0])
	return sum, n
}
