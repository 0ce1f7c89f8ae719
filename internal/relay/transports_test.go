package relay

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/ptspec"
)

// bridgeConfig returns the configuration of a bridge in a network whose
// authorities do not run.
func bridgeConfig(t *testing.T, transports ...string) Config {
	t.Helper()
	c := Config{
		Network: &netdir.Network{
			Name:        "none",
			Authorities: []netdir.Authority{{Nickname: "a", V3Ident: ident.RSAID{1}, RSA: ident.RSAID{2}, ORPorts: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}}},
			Testing:     netdir.Testing{AllowPrivateAddresses: true},
		},
		DataDir: t.TempDir(), Nickname: "bridge", Bridge: true, AssumeReachable: true, ShutdownWait: -1,
		Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")},
	}
	for _, s := range transports {
		l, err := pt.ParseTransportLine(s)
		if err != nil {
			t.Fatal(err)
		}
		c.Transports = append(c.Transports, l)
	}
	return c
}

func TestCheckTransports(t *testing.T) {
	good := bridgeConfig(t, "a,b exec /p", "c exec /q")
	good.TransportListen = map[string]netip.AddrPort{"a": netip.MustParseAddrPort("127.0.0.1:1")}
	good.TransportOptions = map[string]ptspec.Args{"c": {"k": "v"}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no directory":       func(c *Config) { c.NoDir = true },
		"no bridge":          func(c *Config) { c.Bridge = false },
		"a running proxy":    func(c *Config) { c.Transports[1].Path = "" },
		"a transport twice":  func(c *Config) { c.Transports[1].Transports = []string{"b"} },
		"a strange address":  func(c *Config) { c.TransportListen = map[string]netip.AddrPort{"d": {}} },
		"strange options":    func(c *Config) { c.TransportOptions = map[string]ptspec.Args{"d": {}} },
		"a bridge that lets": func(c *Config) { c.Exit = &exit.Config{} },
	} {
		c := bridgeConfig(t, "a,b exec /p", "c exec /q")
		spoil(&c)
		if err := c.Check(); !fault.Is(err, fault.Config) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestExtORPort: a process without the cookie is refused, a transport that cannot
// be started is reported, and nothing continues to run.
func TestExtORPort(t *testing.T) {
	cfg := bridgeConfig(t, "x exec /nonexistent/transport")
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.Run(running) }()

	if _, err := r.BridgeLines(ctx); err == nil || !strings.Contains(err.Error(), "transport x") {
		t.Errorf("bridge lines: %v", err)
	}
	c, err := net.Dial("tcp", r.transports.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(60 * time.Second))
	c.Write(append([]byte{1}, make([]byte, 32+32)...)) // type, nonce, a hash that is wrong
	b, err := io.ReadAll(c)
	if len(b) != 2+64+1 || b[66] != 0 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if st, err := os.Stat(filepath.Join(cfg.DataDir, cookieFile)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("cookie: %v %v", st, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := r.stats.HandshakesFailed.Load(); n != 1 {
		t.Errorf("%d failed handshakes", n)
	}
	if n := r.gate.open.Load(); n != 0 {
		t.Errorf("%d connections are still counted", n)
	}
}

// TestPlainBridgeLine: the line of a bridge without transports has its ORPort.
func TestPlainBridgeLine(t *testing.T) {
	r, err := New(bridgeConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.closeListeners()
	lines, err := r.BridgeLines(t.Context())
	if err != nil || len(lines) != 1 || lines[0].Addr != r.Addrs()[0] || lines[0].Fingerprint != r.Target().RSA {
		t.Errorf("%v %v", lines, err)
	}
}
