package pt

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/upstream"
)

// modeVar makes this test binary a transport process.
const modeVar = "CHIVE_TEST_TRANSPORT"

func TestMain(m *testing.M) {
	mode, ok := os.LookupEnv(modeVar)
	if !ok {
		os.Exit(m.Run())
	}
	switch mode {
	case "chive":
		if Run(context.Background(), Config{Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Version: "test"}) != nil {
			os.Exit(1)
		}
	case "stubborn": // offers something, and ignores that it should end
		fmt.Print("VERSION 1\nCMETHOD x socks5 127.0.0.1:1\nCMETHODS DONE\n")
		select {}
	case "once": // works at the second start only
		mark := filepath.Join(os.Getenv("TOR_PT_STATE_LOCATION"), "started")
		if _, err := os.Stat(mark); err != nil {
			os.WriteFile(mark, nil, 0o600)
			os.Exit(3)
		}
		fmt.Print("VERSION 1\nCMETHOD x socks5 127.0.0.1:7\nCMETHODS DONE\n")
		io.Copy(io.Discard, os.Stdin)
	default:
		fmt.Print(strings.ReplaceAll(mode, "|", "\n"))
		io.Copy(io.Discard, os.Stdin)
	}
}

// launch runs this test binary as a transport process.
func launch(t *testing.T, mode string, cfg ProcessConfig) *Process {
	t.Helper()
	t.Setenv(modeVar, mode)
	var err error
	if cfg.Path, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	if cfg.StateDir == "" {
		cfg.StateDir = filepath.Join(t.TempDir(), "state")
	}
	if cfg.Transports == nil {
		cfg.Transports = []string{"x"}
	}
	p := Launch(cfg)
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
	cookie, err := NewExtCookie(rand.Reader, file)
	if err != nil {
		t.Fatal(err)
	}
	peers := make(chan ExtPeer, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		p, err := AcceptExt(c, rand.Reader, cookie)
		if err != nil {
			t.Error(err)
		}
		peers <- p
		io.Copy(c, c)
	}()
	server := launch(t, "chive", ProcessConfig{Transports: []string{"chive"}, Server: &Server{
		Bind:      map[string]netip.AddrPort{"chive": netip.MustParseAddrPort("127.0.0.1:0")},
		Options:   map[string]Args{"chive": {"mode": "bulk"}},
		ExtORPort: netip.MustParseAddrPort(l.Addr().String()), CookieFile: file,
	}})
	sm, err := server.Method(ctx, "chive")
	if err != nil {
		t.Fatal(err)
	}
	if sm.Args["cert"] == "" {
		t.Fatalf("no certificate in %+v", sm)
	}
	client := launch(t, "chive", ProcessConfig{Transports: []string{"chive"}})
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
	if _, err := cm.Dial(ctx, direct, sm.Addr, Args{"nonsense": "1"}); err == nil {
		t.Error("nonsense was accepted")
	}
}

func TestProcessFaults(t *testing.T) {
	proxy, err := upstream.Parse("socks5://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[string]string{
		"VERSION-ERROR no-version|":                                      "version 1",
		"VERSION 2|":                                                     "version",
		"ENV-ERROR none of 10.1.2.3:80|":                                 "[scrubbed]",
		"CMETHOD x socks5 127.0.0.1:1|":                                  "before VERSION",
		"VERSION 1|CMETHOD y socks5 127.0.0.1:1|":                        "not asked for",
		"VERSION 1|CMETHOD x http 127.0.0.1:1|":                          "neither",
		"VERSION 1|CMETHOD-ERROR x no luck|CMETHODS DONE|":               "no luck",
		"VERSION 1|CMETHODS DONE|":                                       "does not offer",
		"VERSION 1|LOG SEVERITY=loud MESSAGE=x|":                         "severity",
		"VERSION 1|" + strings.Repeat("x", maxLine+1):                    "more than",
		"VERSION 1|PROXY DONE|NEWS|CMETHOD x socks5 1.1.1.1:|":           "port",
		"VERSION 1|CMETHOD x socks5 127.0.0.1:1|SMETHODS|CMETHODS DONE|": "DONE",
	} {
		t.Run("", func(t *testing.T) {
			p := launch(t, mode, ProcessConfig{})
			if _, err := p.Method(within(t), "x"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.60q: %v", mode, err)
			}
		})
	}
	p := launch(t, "VERSION 1|CMETHOD x socks5 127.0.0.1:1|CMETHODS DONE|", ProcessConfig{Proxy: proxy})
	if _, err := p.Method(within(t), "x"); !fault.Is(err, fault.Config) {
		t.Errorf("a plugin that passes the proxy over: %v", err)
	}
	p = Launch(ProcessConfig{Path: "/nonexistent/transport", Transports: []string{"x"}, StateDir: t.TempDir()})
	defer p.Close()
	if _, err := p.Method(within(t), "x"); !fault.Is(err, fault.Config) {
		t.Errorf("a program that isn't there: %v", err)
	}
}

// TestRestart: a process that ended is started again.
func TestRestart(t *testing.T) {
	p := launch(t, "once", ProcessConfig{})
	ctx := within(t)
	for {
		m, err := p.Method(ctx, "x")
		if err == nil {
			if m.Addr.Port() != 7 {
				t.Errorf("%+v", m)
			}
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// TestKilled: a process that doesn't end by itself is ended, and Method says
// that it is.
func TestKilled(t *testing.T) {
	p := launch(t, "stubborn", ProcessConfig{})
	if _, err := p.Method(within(t), "x"); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if _, err := p.Method(within(t), "x"); !fault.Is(err, fault.Closed) {
		t.Error(err)
	}
}

func TestEnvironment(t *testing.T) {
	p := &Process{cfg: ProcessConfig{Transports: []string{"a", "b"}, StateDir: "/s", Server: &Server{
		Bind:    map[string]netip.AddrPort{"b": netip.MustParseAddrPort("[::1]:2"), "a": netip.MustParseAddrPort("127.0.0.1:1")},
		Options: map[string]Args{"a": {"k;": `v\:=`}, "b": {"x": "y"}},
		ORPort:  netip.MustParseAddrPort("127.0.0.1:9001"), ExtORPort: netip.MustParseAddrPort("127.0.0.1:9002"), CookieFile: "/c",
	}}}
	// The plugin's side, which C tor judges, must read what this side writes.
	got := map[string]string{}
	for _, kv := range p.env([]string{"TOR_PT_PROXY=socks5://x:1", "HOME=/h"}) {
		k, v, _ := strings.Cut(kv, "=")
		got[k] = v
	}
	if got["HOME"] != "/h" || got["TOR_PT_PROXY"] != "" {
		t.Error(got)
	}
	e, err := parseEnv(env(got))
	if err != nil {
		t.Fatal(err)
	}
	s := p.cfg.Server
	if e.Client || !e.ExitOnStdinClose || e.StateDir != "/s" || !maps.Equal(e.BindAddrs, s.Bind) || e.ORPort != s.ORPort ||
		e.ExtORPort != s.ExtORPort || e.CookieFile != "/c" || !maps.Equal(e.Options["a"], s.Options["a"]) || strings.Join(e.Transports, ",") != "a,b" {
		t.Errorf("%+v", e)
	}
}

func TestMessages(t *testing.T) {
	m, err := parseMessage(`LOG SEVERITY=warning MESSAGE="a \"b\"\n\101 \\"`)
	if err != nil || m.level != slog.LevelWarn || m.text != "a \"b\"\nA \\" {
		t.Errorf("%+v %v", m, err)
	}
	m, err = parseMessage(`SMETHOD obfs4 198.51.100.1:443 OTHER:x ARGS:cert=a\,b,iat-mode=0`)
	if err != nil || m.method.Args["cert"] != "a,b" || m.method.Args["iat-mode"] != "0" || m.method.Addr.Port() != 443 {
		t.Errorf("%+v %v", m, err)
	}
	m, err = parseMessage(`STATUS TRANSPORT=obfs4 ADDRESS=198.51.100.123:1234 CONNECT=Failed ERRSTR="Connection refused"`)
	if err != nil || m.fields["ERRSTR"] != "Connection refused" {
		t.Errorf("%+v %v", m, err)
	}
	for in, want := range map[string]string{
		"dial tcp 192.0.2.1:443: refused":   "dial tcp [scrubbed]: refused",
		"to [2001:db8::1]:443 and 10.0.0.1": "to [scrubbed] and [scrubbed]",
		"version 1.2.3, 12:30":              "version 1.2.3, 12:30",
	} {
		if got := scrub(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func FuzzMessage(f *testing.F) {
	for _, s := range []string{
		"VERSION 1", "CMETHOD trebuchet socks5 127.0.0.1:19999", "CMETHODS DONE", "PROXY DONE", "ENV-ERROR x",
		"SMETHOD trebuchet 198.51.100.1:19999 ARGS:a=b,c=d", "SMETHOD-ERROR t no", `LOG SEVERITY=debug MESSAGE="x\n"`,
		`STATUS TRANSPORT=obfs4 CONNECT=Success`, "VERSION-ERROR no-version", "PROXY-ERROR SOCKS 4",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := parseMessage(s)
		if err != nil {
			return
		}
		if m.keyword == "CMETHOD" || m.keyword == "SMETHOD" {
			if !validName(m.name) || !m.method.Addr.IsValid() || m.method.Addr.Port() == 0 || (m.keyword == "CMETHOD") == (m.method.Proto == "") {
				t.Fatalf("%+v", m)
			}
		}
	})
}

const fp = "0123456789ABCDEF0123456789ABCDEF01234567"

func TestBridgeLine(t *testing.T) {
	for in, want := range map[string]string{
		"Bridge 192.0.2.1:443":             "192.0.2.1:443",
		"192.0.2.1":                        "192.0.2.1:443",
		"bridge [2001:db8::1]:9001 $" + fp: "[2001:db8::1]:9001 " + fp,
		"obfs4 192.0.2.1:1 " + fp + " iat-mode=0 cert=AB/c+=":  "obfs4 192.0.2.1:1 " + fp + " cert=AB/c+= iat-mode=0",
		"  snowflake  192.0.2.3:80  url=https://x/?a=b;c=d  ":  "snowflake 192.0.2.3:80 url=https://x/?a=b;c=d",
		"obfs4 [::ffff:192.0.2.1]:1 " + strings.ToLower(fp):    "obfs4 192.0.2.1:1 " + fp,
		"meek_lite 0.0.2.0:2 " + fp + " front=a.example utls=": "meek_lite 0.0.2.0:2 " + fp + " front=a.example utls=",
	} {
		l, err := ParseBridgeLine(in)
		if err != nil || l.String() != want {
			t.Errorf("%q: %q, %v", in, l.String(), err)
		}
	}
	for _, bad := range []string{
		"", "Bridge", "obfs4", "example.com:443", "192.0.2.1:0", "192.0.2.1:443 " + fp[1:], "192.0.2.1:443 " + fp + " k=v", "obfs4 192.0.2.1:1 " + fp + " k",
		"obfs4 192.0.2.1:1 k=v " + fp, "obfs4 192.0.2.1:1 k=v k=w", "obfs4 192.0.2.1:1 k=" + strings.Repeat("v", maxSocksArgs), "[fe80::1%eth0]:1",
		"192.0.2.1:443 " + strings.Repeat("0", 40), "obfs4 192.0.2.1:1 =v",
	} {
		if l, err := ParseBridgeLine(bad); !fault.Is(err, fault.Config) {
			t.Errorf("%q is %v, %v", bad, l, err)
		}
	}
	tl, err := ParseTransportLine("ClientTransportPlugin obfs3,obfs4 exec /usr/bin/obfs4proxy -enableLogging")
	if err != nil || len(tl.Transports) != 2 || tl.Path != "/usr/bin/obfs4proxy" || tl.Args[0] != "-enableLogging" {
		t.Errorf("%+v %v", tl, err)
	}
	if tl, err = ParseTransportLine("x socks4 127.0.0.1:5"); err != nil || tl.Proxy.Proto != "socks4" || tl.Proxy.Addr.Port() != 5 {
		t.Errorf("%+v %v", tl, err)
	}
	for _, bad := range []string{"", "x exec", "x, exec /p", "x socks5 host:1", "x socks5 127.0.0.1:1 y", "x proxy 127.0.0.1:1"} {
		if _, err := ParseTransportLine(bad); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzBridgeLine(f *testing.F) {
	f.Add("Bridge obfs4 192.0.2.1:1 " + fp + " cert=a iat-mode=0")
	f.Add("[2001:db8::1]:443 $" + fp)
	f.Add("192.0.2.1")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseBridgeLine(s)
		if err != nil {
			return
		}
		again, err := ParseBridgeLine(l.String())
		if err != nil || again.String() != l.String() || !maps.Equal(again.Args, l.Args) || again.Fingerprint != l.Fingerprint {
			t.Fatalf("%q: %q, then %q (%v)", s, l, again, err)
		}
	})
}

// pipeRW is a peer that has said all it says, and keeps what it hears.
type pipeRW struct {
	io.Reader
	bytes.Buffer
}

func (p *pipeRW) Read(b []byte) (int, error) { return p.Reader.Read(b) }

// TestSocksDialler holds the dialler to the plugin's side for SOCKS5, and to
// the protocol's text for SOCKS4.
func TestSocksDialler(t *testing.T) {
	for _, args := range []Args{nil, {"a": "b"}, {"cert": strings.Repeat("x", 300), "k;=\\": `v;\`}} {
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
		for _, target := range []string{"[2001:db8::1]:443"} {
			if err := (Method{Proto: "socks5"}).ask(a, netip.MustParseAddrPort(target), args.socks()); err != nil {
				t.Fatal(err)
			}
			if r := <-got; r.target != target || !maps.Equal(r.args, args) && len(args) > 0 {
				t.Errorf("%+v, want %v", r, args)
			}
		}
		a.Close()
		b.Close()
	}
	p := &pipeRW{Reader: strings.NewReader("\x00\x5a......")}
	four := Method{Proto: "socks4"}
	if err := four.ask(p, netip.MustParseAddrPort("192.0.2.1:258"), "a=b"); err != nil || p.String() != "\x04\x01\x01\x02\xc0\x00\x02\x01a=b\x00" {
		t.Errorf("%q %v", p.String(), err)
	}
	// Without its arguments, a transport does not know where to go.
	p = &pipeRW{Reader: strings.NewReader("\x05\x00\x05\x00\x00\x01abcdef")}
	if err := (Method{Proto: "socks5"}).ask(p, netip.MustParseAddrPort("192.0.2.1:1"), "a=b"); !fault.Is(err, fault.Protocol) {
		t.Error(err)
	}
}

// TestDialGivesUp: a proxy that says nothing doesn't hold the caller.
func TestDialGivesUp(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	go io.Copy(io.Discard, b)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped by the test")
	go cancel(stopped)
	m := Method{Proto: "socks5"}
	_, err := m.Dial(ctx, func(context.Context, netip.AddrPort) (net.Conn, error) { return a, nil }, netip.MustParseAddrPort("192.0.2.1:1"), nil)
	if !errors.Is(err, stopped) {
		t.Error(err)
	}
}

// TestExtServer puts the client's side, which C tor judges, before the
// server's.
func TestExtServer(t *testing.T) {
	cookie := bytes.Repeat([]byte{7}, cookieLen)
	talk := func(clientCookie []byte) (ExtPeer, error, error) {
		a, b := net.Pipe()
		defer a.Close()
		said := make(chan error, 1)
		go func() {
			defer b.Close()
			said <- extHello(b, rand.Reader, clientCookie, netip.MustParseAddrPort("[2001:db8::1]:5"), "obfs4")
		}()
		p, err := AcceptExt(a, rand.Reader, cookie)
		a.Close()
		return p, err, <-said
	}
	p, err, cerr := talk(cookie)
	if err != nil || cerr != nil || p.Transport != "obfs4" || p.User.String() != "[2001:db8::1]:5" {
		t.Errorf("%+v %v %v", p, err, cerr)
	}
	if _, err, cerr = talk(bytes.Repeat([]byte{8}, cookieLen)); err == nil || cerr == nil {
		t.Errorf("another cookie: %v, %v", err, cerr)
	}
	file := filepath.Join(t.TempDir(), "cookie")
	for range 2 {
		made, err := NewExtCookie(rand.Reader, file)
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

func FuzzExtCommands(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x0b192.0.2.1:5\x00\x02\x00\x05obfs4\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x09\x00\x01x\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x02\x04\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := readExtCommands(bytes.NewReader(b))
		if err == nil && p.Transport != "" && !validName(p.Transport) {
			t.Fatalf("%+v", p)
		}
	})
}
