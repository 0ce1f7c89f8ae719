package plugin

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/ptspec"
)

// modeVar makes this test binary a transport process.
const modeVar = "CHIVE_TEST_PLUGIN"

func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(modeVar); !ok {
		os.Exit(m.Run())
	}
	if Run(context.Background(), Config{Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Version: "test"}) != nil {
		os.Exit(1)
	}
}

// launch runs this test binary as a transport process.
func launch(t *testing.T, cfg pt.ProcessConfig) *pt.Process {
	t.Helper()
	t.Setenv(modeVar, "1")
	var err error
	if cfg.Path, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	cfg.StateDir = filepath.Join(t.TempDir(), "state")
	p := pt.Launch(cfg)
	t.Cleanup(p.Close)
	return p
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func direct(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", a.String())
}

// TestBothParents: Chive launches its own transport as client and as server,
// with the Extended ORPort in between, and bytes arrive.
func TestBothParents(t *testing.T) {
	ctx := within(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "cookie")
	cookie, err := pt.NewExtCookie(rand.Reader, file)
	if err != nil {
		t.Fatal(err)
	}
	peers := make(chan pt.ExtPeer, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		p, err := pt.AcceptExt(c, rand.Reader, cookie)
		if err != nil {
			t.Error(err)
		}
		peers <- p
		io.Copy(c, c)
	}()
	server := launch(t, pt.ProcessConfig{Transports: []string{"chive"}, Server: &pt.Server{
		Bind:      map[string]netip.AddrPort{"chive": netip.MustParseAddrPort("127.0.0.1:0")},
		Options:   map[string]ptspec.Args{"chive": {"mode": "bulk"}},
		ExtORPort: netip.MustParseAddrPort(l.Addr().String()), CookieFile: file,
	}})
	sm, err := server.Method(ctx, "chive")
	if err != nil {
		t.Fatal(err)
	}
	if sm.Args["cert"] == "" {
		t.Fatalf("no certificate in %+v", sm)
	}
	client := launch(t, pt.ProcessConfig{Transports: []string{"chive"}})
	cm, err := client.Method(ctx, "chive")
	if err != nil {
		t.Fatal(err)
	}
	c, err := cm.Dial(ctx, direct, sm.Addr, sm.Args)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text := strings.Repeat("through both processes ", 1000)
	go io.WriteString(c, text)
	b := make([]byte, len(text))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != text {
		t.Fatal("the bytes are not the same", err)
	}
	if p := <-peers; p.Transport != "chive" || !p.User.Addr().IsLoopback() {
		t.Errorf("%+v", p)
	}
	if _, err := cm.Dial(ctx, direct, sm.Addr, ptspec.Args{"nonsense": "1"}); err == nil {
		t.Error("nonsense was accepted")
	}
}

// TestExtServer puts the client's side, which C tor judges, before the
// server's.
func TestExtServer(t *testing.T) {
	cookie := bytes.Repeat([]byte{7}, ptspec.CookieLen)
	talk := func(clientCookie []byte) (pt.ExtPeer, error, error) {
		a, b := net.Pipe()
		defer a.Close()
		said := make(chan error, 1)
		go func() {
			defer b.Close()
			said <- extHello(b, rand.Reader, clientCookie, netip.MustParseAddrPort("[2001:db8::1]:5"), "obfs4")
		}()
		p, err := pt.AcceptExt(a, rand.Reader, cookie)
		a.Close()
		return p, err, <-said
	}
	p, err, cerr := talk(cookie)
	if err != nil || cerr != nil || p.Transport != "obfs4" || p.User.String() != "[2001:db8::1]:5" {
		t.Errorf("%+v %v %v", p, err, cerr)
	}
	if _, err, cerr = talk(bytes.Repeat([]byte{8}, ptspec.CookieLen)); err == nil || cerr == nil {
		t.Errorf("another cookie: %v, %v", err, cerr)
	}
	file := filepath.Join(t.TempDir(), "cookie")
	for range 2 {
		made, err := pt.NewExtCookie(rand.Reader, file)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := readCookie(file); err != nil || !bytes.Equal(made, read) {
			t.Fatal("the cookie file", err)
		}
	}
	if st, err := os.Stat(file); err != nil || st.Mode() != 0o600 {
		t.Error(st, err)
	}
}

// TestSocksDialler holds the parent's dialler to the plugin's side.
func TestSocksDialler(t *testing.T) {
	for _, args := range []ptspec.Args{nil, {"a": "b"}, {"cert": strings.Repeat("x", 300), "k;=\\": `v;\`}} {
		a, b := net.Pipe()
		got := make(chan *socksRequest, 1)
		go func() {
			r, err := readSocks(b)
			if err != nil {
				t.Error(err)
				r = &socksRequest{}
			}
			writeSocks(b, socksOK)
			got <- r
		}()
		target := "[2001:db8::1]:443"
		c, err := (pt.Method{Proto: "socks5"}).Dial(t.Context(), func(context.Context, netip.AddrPort) (net.Conn, error) { return a, nil }, netip.MustParseAddrPort(target), args)
		if err != nil {
			t.Fatal(err)
		}
		if r := <-got; r.target != target || !maps.Equal(r.args, args) && len(args) > 0 {
			t.Errorf("%+v, want %v", r, args)
		}
		c.Close()
		b.Close()
	}
}
