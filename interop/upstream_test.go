package interop

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/socks"
	"github.com/chivenet/chive/internal/upstream"
)

// upstreamProxy is a proxy of another project, on loopback.
type upstreamProxy struct {
	url  string // with user name and password
	addr netip.AddrPort
	stop func()
	log  func() string
}

// output keeps what a program says.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// runUpstream starts a program that listens at an address.
func runUpstream(t *testing.T, scheme, login string, addr netip.AddrPort, name string, args ...string) *upstreamProxy {
	t.Helper()
	program, err := exec.LookPath(name)
	labtest.Need(t, name, err)
	cmd := exec.Command(program, args...)
	out := new(output)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(stop)
	ctx := bounded(t, patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := net.Dial("tcp", addr.String()); err == nil {
			_ = c.Close()
			return &upstreamProxy{scheme + "://" + login + addr.String(), addr, stop, out.String}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s does not listen: %s", name, out)
		}
	}
}

func onFreePort(t *testing.T, nw *ctor.Network, host string) netip.AddrPort {
	t.Helper()
	port, err := nw.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(netip.MustParseAddr(host), port)
}

func microsocks(t *testing.T, nw *ctor.Network, host, user, password string) *upstreamProxy {
	t.Helper()
	at := onFreePort(t, nw, host)
	args, login := []string{"-i", host, "-p", fmt.Sprint(at.Port())}, ""
	if user != "" {
		args, login = append(args, "-u", user, "-P", password), user+":"+password+"@"
	}
	return runUpstream(t, "socks5", login, at, "microsocks", args...)
}

func tinyproxy(t *testing.T, nw *ctor.Network, user, password string) *upstreamProxy {
	t.Helper()
	at, login := onFreePort(t, nw, "127.0.0.1"), ""
	file := filepath.Join(t.TempDir(), "conf")
	conf := fmt.Sprintf("Port %d\nListen 127.0.0.1\nTimeout 600\nMaxClients 100\nLogLevel Connect\n", at.Port())
	if user != "" {
		conf, login = conf+fmt.Sprintf("BasicAuth %s %s\n", user, password), user+":"+password+"@"
	}
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return runUpstream(t, "http", login, at, "tinyproxy", "-d", "-c", file)
}

// straight connects to where a program asks, for a proxy inside this test.
type straight struct{ socks.Dialer }

func (straight) Dial(ctx context.Context, r socks.Request) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(r.Host, fmt.Sprint(r.Port)))
}

// socks4 is Chive's own SOCKS server, which curl judges elsewhere.
func socks4(t *testing.T) *upstreamProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := socks.NewSOCKS(socks.Config{Dialer: straight{}})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	stop := sync.OnceFunc(func() {
		s.Close()
		<-ended
	})
	t.Cleanup(stop)
	return &upstreamProxy{"socks4://" + l.Addr().String(), netip.MustParseAddrPort(l.Addr().String()), stop, func() string { return "" }}
}

// upstreamClient runs a client behind a proxy.
func upstreamClient(t *testing.T, nw *ctor.Network, d *dialled, log *output, url string, change func(*client.Config)) *client.Client {
	t.Helper()
	p, err := upstream.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	desc := nw.Description()
	cfg := client.Config{Network: &desc, Dial: d.dial, Upstream: p, Live: client.Live{Path: path.Config{SameSubnet: true}},
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if p.OnlyIPv4() {
		cfg.Path.Reachable = cfg.Path.Reachable.WithoutIPv6()
	}
	if change != nil {
		change(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestUpstreamProxy: through proxies of other projects, a client connects to the proxy
// and to nothing else, also when the proxy has ended; then its state names the cause,
// no guard is to blame, and neither that nor the log has the password.
func TestUpstreamProxy(t *testing.T) {
	nw := network(t, "vanilla")
	for name, start := range map[string]func(t *testing.T) *upstreamProxy{
		"SOCKS 4":            func(t *testing.T) *upstreamProxy { return socks4(t) },
		"SOCKS 5":            func(t *testing.T) *upstreamProxy { return microsocks(t, nw, "::1", "", "") },
		"SOCKS 5 with login": func(t *testing.T) *upstreamProxy { return microsocks(t, nw, "127.0.0.1", "alice", "opensesame") },
		"HTTP":               func(t *testing.T) *upstreamProxy { return tinyproxy(t, nw, "", "") },
		"HTTP with login":    func(t *testing.T) *upstreamProxy { return tinyproxy(t, nw, "alice", "opensesame") },
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t)
			var d dialled
			log := new(output)
			c := upstreamClient(t, nw, &d, log, p.url, nil)
			fetch(t, c)
			if a := d.only(t); a != p.addr {
				t.Errorf("connected to %v, not to the proxy at %v", a, p.addr)
			}
			p.stop()
			problem := ""
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for ctx := bounded(t, patience); problem == ""; {
				c.NewIdentity()
				try, cancel := context.WithTimeout(ctx, time.Second)
				if conn, err := c.Dial(try, client.Request{Host: "192.0.2.1", Port: 80}); err == nil {
					t.Errorf("a stream without the proxy")
					conn.Close()
				}
				cancel()
				problem = c.Status().Bootstrap.Problem
				select {
				case <-tick.C:
				case <-ctx.Done():
					t.Fatalf("nobody notices that the proxy has ended: %s", log)
				}
			}
			if !strings.Contains(problem, "proxy cannot be reached: ") || !strings.Contains(problem, "connection refused") {
				t.Errorf("problem: %s", problem)
			}
			if a := d.only(t); a != p.addr {
				t.Errorf("without the proxy, connected to %v", a)
			}
			for _, g := range c.Status().Guards.Guards {
				if g.Reachable == "no" {
					t.Errorf("the proxy's end is the fault of the guard %s: %s", g.Nickname, log)
				}
			}
			for _, secret := range []string{"alice", "opensesame", p.addr.String()} {
				if strings.Contains(log.String()+problem+fmt.Sprintf("%+v", c.Status()), secret) {
					t.Errorf("%q is in the log or in the state", secret)
				}
			}
		})
	}
}

// TestUpstreamRefuses: a proxy that wants another password connects nothing, and the
// error says so.
func TestUpstreamRefuses(t *testing.T) {
	nw := network(t, "vanilla")
	for name, c := range map[string]struct{ proxy, login, want string }{
		"SOCKS 5, wrong password": {"socks5", "alice:wrong@", "the SOCKS 5 proxy: it refuses the user name or the password"},
		"SOCKS 5, no password":    {"socks5", "", "the SOCKS 5 proxy: it wants a user name and a password"},
		"HTTP, wrong password":    {"http", "alice:wrong@", "the HTTP proxy: it "},
	} {
		t.Run(name, func(t *testing.T) {
			p := microsocks
			run := func() *upstreamProxy { return p(t, nw, "127.0.0.1", "alice", "opensesame") }
			if c.proxy == "http" {
				run = func() *upstreamProxy { return tinyproxy(t, nw, "alice", "opensesame") }
			}
			at := run()
			var d dialled
			client := upstreamClient(t, nw, &d, new(output), c.proxy+"://"+c.login+at.addr.String(), nil)
			problem := ""
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for ctx := bounded(t, patience); problem == ""; problem = client.Bootstrap().Problem {
				select {
				case <-tick.C:
				case <-ctx.Done():
					t.Fatal("no problem")
				}
			}
			if !strings.Contains(problem, c.want) {
				t.Errorf("problem: %s", problem)
			}
			if a := d.only(t); a != at.addr {
				t.Errorf("connected to %v", a)
			}
		})
	}
}

// TestUpstreamTransport: obfs4proxy reaches a bridge through the proxy that it is told of.
func TestUpstreamTransport(t *testing.T) {
	nw := network(t, "vanilla")
	plugin := obfs4proxy(t)
	b := startTorBridge(t, nw, "proxied", "obfs4", plugin)
	p := microsocks(t, nw, "127.0.0.1", "alice", "opensesame")
	bridge, err := pt.ParseBridgeLine(fmt.Sprintf("obfs4 %s %s %s", b.pt, b.fp, b.extra))
	if err != nil {
		t.Fatal(err)
	}
	transport, err := pt.ParseTransportLine("obfs4 exec " + plugin)
	if err != nil {
		t.Fatal(err)
	}
	var d dialled
	c := upstreamClient(t, nw, &d, new(output), p.url, func(cfg *client.Config) {
		cfg.Bridges, cfg.Transports = []pt.BridgeLine{bridge}, []pt.TransportLine{transport}
	})
	fetch(t, c)
	if a := d.only(t); a == p.addr || a == b.pt {
		t.Errorf("connected to %v, not to the transport", a)
	}
	if want := b.pt.String(); !strings.Contains(p.log(), want) {
		t.Errorf("the proxy did not connect to the bridge: %s", p.log())
	}
}
