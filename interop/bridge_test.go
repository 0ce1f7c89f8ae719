package interop

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pt"
)

// torBridge is a bridge of C tor next to a network.
type torBridge struct {
	dir   string
	or    netip.AddrPort
	pt    netip.AddrPort // the transport's port
	fp    string
	extra string // the transport's part of the line, after the fingerprint
}

// obfs4proxy returns the program's path, or skips the test without it.
func obfs4proxy(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("obfs4proxy")
	labtest.Need(t, "obfs4proxy", err)
	return path
}

// fteKey is the key of a bridge's transport fte.
var fteKey = "key=" + strings.Repeat("5c", 32)

// startTorBridge runs C tor as a bridge, with a transport by that program.
func startTorBridge(t *testing.T, nw *ctor.Network, name, transport, plugin string) *torBridge {
	t.Helper()
	tor, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	b := &torBridge{dir: t.TempDir()}
	ports := [2]uint16{}
	for i := range ports {
		if ports[i], err = nw.FreePort(); err != nil {
			t.Fatal(err)
		}
	}
	lo := netip.MustParseAddr("127.0.0.1")
	b.or, b.pt = netip.AddrPortFrom(lo, ports[0]), netip.AddrPortFrom(lo, ports[1])
	rc := nw.Torrc() + fmt.Sprintf(`DataDirectory %s
Nickname %s
SocksPort 0
Address 127.0.0.1
ORPort %s IPv4Only
BridgeRelay 1
PublishServerDescriptor 0
AssumeReachable 1
ExitRelay 0
ExitPolicy reject *:*
Log notice file %s/log
`, b.dir, name, b.or, b.dir)
	rc += fmt.Sprintf("ExtORPort auto\nServerTransportPlugin %s exec %s\nServerTransportListenAddr %s %s\n", transport, plugin, transport, b.pt)
	if transport == "fte" {
		rc += "ServerTransportOptions fte " + fteKey + "\n"
	}
	file := filepath.Join(b.dir, "torrc")
	if err := os.WriteFile(file, []byte(rc), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := nw.Run(exec.Command(tor, "--defaults-torrc", "/nonexistent", "-f", file, "--hush"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop() })
	waitFile(t, filepath.Join(b.dir, "log"), `Bootstrapped 100%`)
	b.fp = waitFile(t, filepath.Join(b.dir, "fingerprint"), `\S+ ([0-9A-F]{40})`)
	if transport == "obfs4" {
		b.extra = waitFile(t, filepath.Join(b.dir, "pt_state", "obfs4_bridgeline.txt"), `(cert=\S+ iat-mode=\d)`)
		return b
	}
	waitFile(t, filepath.Join(b.dir, "log"), "Registered server transport")
	if transport == "fte" {
		b.extra = fteKey
		return b
	}
	f, err := os.Open(filepath.Join(b.dir, "pt_state", "chive_fte_keys"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	keys, err := fte.ParseServerKeys(f)
	if err != nil {
		t.Fatal(err)
	}
	b.extra = "cert=" + keys[0].Cert().Bare()
	return b
}

// waitFile waits until a file matches the pattern, and returns the pattern's
// group.
func waitFile(t *testing.T, path, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	ctx := bounded(t, patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(path)
		if m := re.FindSubmatch(text); err == nil && m != nil {
			return string(m[len(m)-1])
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s never had %q: %v\n%s", path, pattern, err, text)
		}
	}
}

// dialled counts the addresses to which a client connects.
type dialled struct {
	mu sync.Mutex
	to map[netip.AddrPort]int // guarded by mu
}

func (d *dialled) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	d.mu.Lock()
	if d.to == nil {
		d.to = map[netip.AddrPort]int{}
	}
	d.to[addr]++
	d.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, "tcp", addr.String())
}

// only checks that every connection went to one address, and returns it.
func (d *dialled) only(t *testing.T) netip.AddrPort {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.to) != 1 {
		t.Fatalf("the client connected to %v, not to one address only", d.to)
	}
	for a := range d.to {
		return a
	}
	return netip.AddrPort{}
}

// bridgeClient runs a client of the network with bridges.
func bridgeClient(t *testing.T, nw *ctor.Network, d *dialled, lines []string, plugins ...string) *client.Client {
	t.Helper()
	c := bridgeClientIn(t, t.TempDir(), nw, d, lines, plugins...)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// bridgeClientIn is bridgeClient with a directory that an earlier client may have
// used; the caller closes the client.
func bridgeClientIn(t *testing.T, dir string, nw *ctor.Network, d *dialled, lines []string, plugins ...string) *client.Client {
	t.Helper()
	desc := nw.Description()
	cfg := client.Config{Network: &desc, Dir: dir, Dial: d.dial, Live: client.Live{Path: path.Config{SameSubnet: true}}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, s := range lines {
		l, err := pt.ParseBridgeLine(s)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Bridges = append(cfg.Bridges, l)
	}
	for _, s := range plugins {
		l, err := pt.ParseTransportLine(s)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Transports = append(cfg.Transports, l)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fetch downloads 10 MB and compares them.
func fetch(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := bounded(t, patience)
	if err := c.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	source := netip.MustParseAddrPort(shared.target.Addr(target.Source))
	conn, err := c.Dial(ctx, client.Request{Host: source.Addr().String(), Port: source.Port()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		conn.SetDeadline(end)
	}
	const n = 10 << 20
	if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, n)); err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	got, err := io.Copy(h, conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := same(h, got, n); err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MB/s", n/1e6/time.Since(began).Seconds())
}

// TestBridge runs Chive's client with bridges of C tor: it connects only to them,
// or to the transport that leads to them.
func TestBridge(t *testing.T) {
	nw := network(t, "vanilla")
	plugin := obfs4proxy(t)
	b := startTorBridge(t, nw, "bridge", "obfs4", plugin)
	for name, line := range map[string]string{
		"plain":               fmt.Sprintf("Bridge %s %s", b.or, b.fp),
		"without fingerprint": b.or.String(),
	} {
		t.Run(name, func(t *testing.T) {
			var d dialled
			c := bridgeClient(t, nw, &d, []string{line})
			fetch(t, c)
			if a := d.only(t); a != b.or {
				t.Errorf("connected to %v", a)
			}
			s := c.Status()
			if len(s.Bridges) != 1 || !s.Bridges[0].Usable || s.Bridges[0].ID.RSA.String() != b.fp || s.Bridges[0].Nickname != "bridge" ||
				s.Guards.Set != "bridges" || len(s.Guards.Guards) != 1 {
				t.Errorf("status: %+v, %+v", s.Bridges, s.Guards)
			}
		})
	}
	t.Run("obfs4", func(t *testing.T) {
		var d dialled
		c := bridgeClient(t, nw, &d, []string{fmt.Sprintf("obfs4 %s %s %s", b.pt, b.fp, b.extra)}, "obfs4 exec "+plugin)
		fetch(t, c)
		if a := d.only(t); a == b.or || a == b.pt {
			t.Errorf("connected to the bridge at %v, not to the transport", a)
		}
	})
	t.Run("restart", func(t *testing.T) {
		dir := t.TempDir()
		for range 2 {
			var d dialled
			c := bridgeClientIn(t, dir, nw, &d, []string{fmt.Sprintf("%s %s", b.or, b.fp)})
			fetch(t, c)
			d.only(t)
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("one of two is down", func(t *testing.T) {
		port, err := nw.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		var d dialled
		c := bridgeClient(t, nw, &d, []string{fmt.Sprintf("127.0.0.1:%d %s", port, strings.Repeat("AB", 20)), fmt.Sprintf("%s %s", b.or, b.fp)})
		fetch(t, c)
	})
}

// TestBridgeCommand makes the binary use a C tor bridge, with the binary itself
// as the transport on both sides; the kernel's list shows its connections.
func TestBridgeCommand(t *testing.T) {
	nw := network(t, "vanilla")
	bin, err := buildChive()
	if err != nil {
		t.Fatal(err)
	}
	b := startTorBridge(t, nw, "chivebridge", "chive", bin)
	dir := t.TempDir()
	cmd, ports := runProxy(t, bin, nw, dir, "--transport-plugin", "chive exec "+bin, "--bridge", fmt.Sprintf("chive %s %s %s", b.pt, b.fp, b.extra))
	d := socksclient.Dialer{Proxy: ports["socks"]}
	if err := download(bounded(t, patience), d, shared.target.Addr(target.Source), 10<<20); err != nil {
		t.Fatal(err)
	}
	conns, err := connsOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range conns {
		if c.remote.Port() == 0 {
			continue // it listens
		}
		if n++; c.remote == b.or || c.remote == b.pt {
			t.Errorf("the client is connected to the bridge at %v, not to the transport", c.remote)
		}
		for _, r := range nw.Routers() {
			if c.remote == r.OR || c.remote == r.DirPort {
				t.Errorf("the client is connected to %s", r.Name)
			}
		}
	}
	if n == 0 {
		t.Error("the kernel knows no connection of the client")
	}
	out, err := exec.CommandContext(bounded(t, patience), bin, "status", "--data-dir", dir).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "bridge     "+b.fp+" chivebridge chive (its descriptor is here)") {
		t.Errorf("status: %v\n%s", err, out)
	}
}

// TestBridgeFailsClosed: a client whose bridge has another identity, or does not
// run, connects to nothing else.
func TestBridgeFailsClosed(t *testing.T) {
	nw := network(t, "vanilla")
	relay := nw.ByRole(ctor.Relay)[0]
	other := nw.ByRole(ctor.Relay)[1]
	var d dialled
	c := bridgeClient(t, nw, &d, []string{fmt.Sprintf("%s %s", relay.OR, other.ID.RSA)})
	await(t, "the client tells of another identity", patience, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := c.Wait(ctx)
		if err == nil {
			t.Fatal("a bridge that is another relay is used")
		}
		return strings.Contains(err.Error(), "identity")
	})
	if a := d.only(t); a != relay.OR {
		t.Errorf("connected to %v", a)
	}
}
