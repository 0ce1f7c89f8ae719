package interop

import (
	"bufio"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/proxydial"
	"github.com/chivenet/chive/internal/socks"
)

// onionNetwork starts a network of C tor whose relays keep descriptors.
func onionNetwork(t *testing.T, ctx context.Context) *ctor.Network {
	t.Helper()
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	nw, err := ctor.Start(ctx, ctor.Options{
		Relays: 6, Exits: 1, LogLevel: "info",
		Extra: map[string][]string{"auth": {"TestingDirAuthVoteHSDir *"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nw.Close(); err != nil {
			t.Error(err)
		}
	})
	return nw
}

// onionService is an onion service of C tor.
type onionService struct {
	node *ctor.Node
	dir  string
	host string
}

// serveOnion starts a C tor with an onion service whose port 80 is addr, for the
// authorized clients only if there are any, and waits until its descriptor is there.
func serveOnion(t *testing.T, ctx context.Context, nw *ctor.Network, addr string, clients ...string) *onionService {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "service")
	if err := os.MkdirAll(filepath.Join(dir, "authorized_clients"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, c := range clients {
		name := filepath.Join(dir, "authorized_clients", fmt.Sprintf("client%d.auth", i))
		if err := os.WriteFile(name, []byte("descriptor:x25519:"+c+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return serveOnionDir(t, ctx, nw, addr, dir)
}

// serveOnionDir is serveOnion for a directory that is there, or that C tor makes.
func serveOnionDir(t *testing.T, ctx context.Context, nw *ctor.Network, addr, dir string) *onionService {
	t.Helper()
	node, err := nw.AddClient(ctx, "", "HiddenServiceDir "+dir, "HiddenServicePort 80 "+addr, "Log info file "+filepath.Join(t.TempDir(), "info"))
	if err != nil {
		t.Fatal(err)
	}
	ctl, err := node.Control(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer ctl.Close()
	events, err := ctl.Events(ctx, "HS_DESC")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "hostname"))
	if err != nil {
		t.Fatal(err)
	}
	s := &onionService{node, dir, strings.TrimSpace(string(b))}
	for n := 0; n < 6; {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatal("the control connection ended")
			}
			if strings.HasPrefix(e.Rest, "UPLOADED") {
				n++
			}
		case <-ctx.Done():
			t.Fatalf("the service is not published: %d uploads", n)
		}
	}
	return s
}

// x25519Pair returns the keys of a client of an onion service, in base32.
func x25519Pair(t *testing.T) (public, secret string) {
	t.Helper()
	k, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString
	return text(k.PublicKey().Bytes()), text(k.Bytes())
}

// onionClient is a client of Chive.
func onionClient(t *testing.T, ctx context.Context, nw *ctor.Network, change func(*chive.Config)) *chive.Client {
	t.Helper()
	file, err := nw.WriteNetworkFile()
	if err != nil {
		t.Fatal(err)
	}
	network, err := chive.LoadNetwork(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg := chive.Config{Network: network, DataDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if change != nil {
		change(&cfg)
	}
	c, err := chive.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// fetchOnion fetches size bytes and checks them.
func fetchOnion(ctx context.Context, c *chive.Client, host string, size int64) error {
	return fetchOver(ctx, c.DialContext, host, size)
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

func fetchOver(ctx context.Context, dial dialFunc, host string, size int64) error {
	hc := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/bytes/%d", host, size), nil)
	if err != nil {
		return err
	}
	res, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	h := sha256.New()
	n, err := io.Copy(h, res.Body)
	if err != nil {
		return err
	}
	if n != size || [32]byte(h.Sum(nil)) != target.Sum(size) {
		return fmt.Errorf("%d bytes with status %d, not the %d that were sent", n, res.StatusCode, size)
	}
	return nil
}

// TestOnionClient: Chive's client reaches onion services of C tor, and says why it
// cannot reach others.
func TestOnionClient(t *testing.T) {
	ctx := bounded(t, 5*patience)
	nw := onionNetwork(t, ctx)
	tg, err := target.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	public, key := x25519Pair(t)
	open := serveOnion(t, ctx, nw, tg.Addr(target.Web))
	closed := serveOnion(t, ctx, nw, tg.Addr(target.Web), public)
	line := func(s *onionService, secret string) string {
		return strings.TrimSuffix(s.host, ".onion") + ":descriptor:x25519:" + secret
	}
	c := onionClient(t, ctx, nw, nil)
	began := time.Now()
	if err := fetchOnion(ctx, c, open.host, 1000); err != nil {
		t.Fatal(err)
	}
	t.Logf("cold: %v", time.Since(began))
	began = time.Now()
	if err := fetchOnion(ctx, c, open.host, 10<<20); err != nil {
		t.Fatal(err)
	}
	t.Logf("10 MB: %v", time.Since(began))
	if err := fetchOnion(ctx, c.Isolated(), "www."+open.host, 1000); err != nil {
		t.Error(err)
	}
	for name, q := range map[string]struct {
		host string
		want error
	}{
		"client authorization is missing": {closed.host, chive.ErrOnionNeedsAuth},
		"no such service":                 {"2gzyxa5ihm7nsggfxnu52rck2vv4rvmdlkiu3zzui5du4xyclen53wid.onion", chive.ErrOnionNoDescriptor},
		"no address":                      {"example.onion", chive.ErrOnionAddress},
	} {
		if _, err := c.DialContext(ctx, "tcp", q.host+":80"); !errors.Is(err, q.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.DialContext(ctx, "tcp", open.host+":81"); err == nil {
		t.Error("a port that the service does not have was opened")
	}
	if _, err := c.Resolve(ctx, open.host); !errors.Is(err, chive.ErrPolicy) {
		t.Errorf("a lookup of an onion service: %v", err)
	}
	onionPorts(t, ctx, c, open, closed)
	_, other := x25519Pair(t)
	wrong := onionClient(t, ctx, nw, func(cfg *chive.Config) { cfg.ClientOnionAuth = []string{line(closed, other)} })
	if _, err := wrong.DialContext(ctx, "tcp", closed.host+":80"); !errors.Is(err, chive.ErrOnionBadAuth) {
		t.Errorf("a wrong key: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "auth")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	right := onionClient(t, ctx, nw, func(cfg *chive.Config) { cfg.ClientOnionAuthDir = dir })
	if _, err := right.DialContext(ctx, "tcp", closed.host+":80"); !errors.Is(err, chive.ErrOnionNeedsAuth) {
		t.Errorf("an empty directory of keys: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.auth_private"), []byte(line(closed, key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := right.Reload(right.Config()); err != nil {
		t.Fatal(err)
	}
	if err := fetchOnion(ctx, right, closed.host, 1000); err != nil {
		t.Errorf("the right key: %v", err)
	}
	if err := closed.node.Kill(); err != nil {
		t.Fatal(err)
	}
	right.NewIdentity()
	// The points may not have noticed yet: then the service is told, and does not come.
	if err := fetchOnion(ctx, right, closed.host, 1000); !errors.Is(err, chive.ErrOnionIntroduction) && !errors.Is(err, chive.ErrOnionRendezvous) {
		t.Errorf("a service that is down: %v", err)
	}
}

// onionPorts checks what programs see at the ports.
func onionPorts(t *testing.T, ctx context.Context, c *chive.Client, open, closed *onionService) {
	t.Helper()
	serve := func(server *socks.Server) string {
		l, err := socks.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		t.Cleanup(func() {
			if err := errors.Join(server.Close(), <-ended); err != nil {
				t.Error(err)
			}
		})
		return l.Addr().String()
	}
	cfg := socks.Config{Dialer: proxydial.Dialer{Client: proxydial.Of(c)}, ExtendedErrors: true}
	d := socksclient.Dialer{Proxy: serve(socks.NewSOCKS(cfg))}
	for host, want := range map[string]socksclient.Reply{
		"2gzyxa5ihm7nsggfxnu52rck2vv4rvmdlkiu3zzui5du4xyclen53wid.onion": 0xF0,
		closed.host:     0xF4,
		"x" + open.host: 0xF6,
	} {
		if _, err := d.DialContext(ctx, "tcp", host+":80"); !errors.Is(err, want) {
			t.Errorf("%s: %v, not %#x", host, err, byte(want))
		}
	}
	if _, err := d.Resolve(ctx, open.host); err == nil {
		t.Error("a lookup of an onion service through SOCKS")
	}
	for name, dial := range map[string]dialFunc{"SOCKS": d.DialContext, "HTTP CONNECT": connectDialer(serve(socks.NewHTTP(cfg)))} {
		if err := fetchOver(ctx, dial, open.host, 100_000); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// connectDialer dials through an HTTP CONNECT proxy.
func connectDialer(proxy string) dialFunc {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", proxy)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", addr, addr)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil && res.StatusCode != http.StatusOK {
			err = errors.New(res.Status)
		}
		if err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	}
}
