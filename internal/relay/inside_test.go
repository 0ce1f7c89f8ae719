package relay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/builtin"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ptspec"
	"github.com/chivenet/chive/internal/transport"
)

// serverFunc is a transport.
type serverFunc func(ctx context.Context, cfg transport.ServerConfig) (net.Listener, map[string]string, error)

func (f serverFunc) Listen(ctx context.Context, cfg transport.ServerConfig) (net.Listener, map[string]string, error) {
	return f(ctx, cfg)
}

// insideConfig is a bridge's configuration with transports in its process.
func insideConfig(t *testing.T, with map[string]transport.Server) Config {
	c := bridgeConfig(t)
	c.Inside = with
	return c
}

// runBridge runs a bridge until the returned function is called, which waits for its end.
func runBridge(t *testing.T, cfg Config) (*Relay, func()) {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	end := sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the bridge waits for its transports")
		}
	})
	t.Cleanup(end)
	return r, end
}

func TestCheckInside(t *testing.T) {
	fte, _ := builtin.Of("fte")
	with := func() Config {
		c := insideConfig(t, map[string]transport.Server{"fte": fte})
		c.TransportListen = map[string]netip.AddrPort{"fte": netip.MustParseAddrPort("127.0.0.1:1")}
		c.TransportOptions = map[string]ptspec.Args{"fte": {"k": "v"}}
		return c
	}
	good := with()
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no bridge":          func(c *Config) { c.Bridge = false },
		"the same by plugin": func(c *Config) { c.Transports = bridgeConfig(t, "a,fte exec /p").Transports },
		"another address":    func(c *Config) { c.TransportListen["chive"] = netip.AddrPort{} },
		"an exit":            func(c *Config) { c.Exit = &exit.Config{} },
	} {
		c := with()
		spoil(&c)
		if err := c.Check(); !fault.Is(err, fault.Config) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInsideLines: a bridge has a line for each transport in its process, with the port that it chose, which it has
// again after a restart.
func TestInsideLines(t *testing.T) {
	with := map[string]transport.Server{}
	for _, n := range builtin.Names {
		with[n], _ = builtin.Of(n)
	}
	cfg := insideConfig(t, with)
	cfg.TransportOptions = map[string]ptspec.Args{"fte": {"key": strings.Repeat("ab", 32), "max-connections": "7"}}
	r, end := runBridge(t, cfg)
	lines, err := r.BridgeLines(within(t))
	if err != nil || len(lines) != 2 || lines[0].Transport != "chive" || lines[0].Args["cert"] == "" || lines[1].Transport != "fte" || len(lines[1].Args) != 1 || lines[1].Args["key"] == "" {
		t.Fatal(lines, err)
	}
	for _, l := range lines {
		c, err := net.Dial("tcp", l.Addr.String())
		if err != nil {
			t.Error(err)
			continue
		}
		c.Close()
	}
	end()
	// Another program may have taken the ports meanwhile, so this looks at what the transports are asked for.
	asked := make(chan netip.AddrPort, 100)
	for n := range with {
		with[n] = serverFunc(func(_ context.Context, cfg transport.ServerConfig) (net.Listener, map[string]string, error) {
			asked <- cfg.Addr
			return nil, nil, errors.New("once is enough")
		})
	}
	_, end = runBridge(t, cfg)
	want := map[netip.AddrPort]bool{lines[0].Addr: true, lines[1].Addr: true}
	for ctx := within(t); len(want) > 0; {
		select {
		case a := <-asked:
			delete(want, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), a.Port()))
		case <-ctx.Done():
			t.Fatalf("no transport is asked for %v", want)
		}
	}
	end()
}

// TestInsideTriesAgain: a transport that fails, panics or gives nothing is told of, and asked again.
func TestInsideTriesAgain(t *testing.T) {
	var asked atomic.Int64
	var dir atomic.Value
	cfg := insideConfig(t, map[string]transport.Server{"x": serverFunc(func(ctx context.Context, cfg transport.ServerConfig) (net.Listener, map[string]string, error) {
		dir.Store(cfg.Dir)
		switch asked.Add(1) {
		case 1:
			return nil, nil, errors.New("not yet")
		case 2:
			return nil, nil, nil
		}
		if cfg.MaxConns <= 0 || cfg.Addr.String() != "127.0.0.1:0" || cfg.Options["a"] != "b" {
			t.Errorf("%+v", cfg)
		}
		l, err := cfg.Listen(ctx, "tcp", cfg.Addr.String())
		return l, map[string]string{"k": "v"}, err
	})})
	cfg.TransportListen = map[string]netip.AddrPort{"x": netip.MustParseAddrPort("127.0.0.1:0")}
	cfg.TransportOptions = map[string]ptspec.Args{"x": {"a": "b"}}
	r, _ := runBridge(t, cfg)
	d := r.transports.inside[0]
	told := false
	for ctx := within(t); ; {
		_, _, changed, _ := d.state()
		lines, err := r.BridgeLines(ctx)
		if err == nil {
			if len(lines) != 1 || lines[0].Args["k"] != "v" || lines[0].Addr.Port() == 0 {
				t.Error(lines)
			}
			break
		}
		told = told || strings.Contains(err.Error(), "transport x")
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
	if !told {
		t.Error("no error was told")
	}
	if dir.Load() != filepath.Join(cfg.DataDir, "pt_state") {
		t.Error(dir.Load())
	}
}

// pipes is a listener whose connections a test makes. It ignores that it is closed.
type pipes struct {
	conns   chan net.Conn
	release chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.release:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Addr() net.Addr { return nil }

func (p *pipes) Close() error {
	<-p.release
	return nil
}

// from is a connection with a client's address, whose Close waits.
type from struct {
	net.Conn
	addr    net.Addr
	release chan struct{}
}

func (c *from) RemoteAddr() net.Addr { return c.addr }

func (c *from) Close() error {
	<-c.release
	return c.Conn.Close()
}

// TestInsideStrangers: connections of a transport are counted by the addresses that it names, whatever these are. What
// does no handshake leaves no count, and the bridge ends though neither listener nor connections close.
func TestInsideStrangers(t *testing.T) {
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	defer close(p.release)
	cfg := insideConfig(t, map[string]transport.Server{"x": serverFunc(func(context.Context, transport.ServerConfig) (net.Listener, map[string]string, error) {
		return p, nil, nil
	})})
	r, end := runBridge(t, cfg)
	ctx := within(t)
	if _, err := r.BridgeLines(ctx); err == nil || !strings.Contains(err.Error(), "where it listens") {
		t.Error(err)
	}
	addrs := []net.Addr{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 5}, nil, (*net.TCPAddr)(nil), &net.TCPAddr{}, &net.UnixAddr{Name: "x"}, &net.TCPAddr{IP: net.IPv6zero}, &net.TCPAddr{IP: net.IPv4bcast, Port: -1}}
	for i, a := range addrs {
		near, far := net.Pipe()
		defer far.Close()
		select {
		case p.conns <- &from{near, a, p.release}:
		case <-ctx.Done():
			t.Fatal("not accepted")
		}
		if i%2 == 0 {
			far.SetDeadline(time.Now().Add(time.Minute))
			if _, err := far.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
				t.Errorf("%v: %v", a, err)
			}
			go discard(far)
		} else {
			go far.Close() // before it says anything
		}
	}
	for tick := time.NewTicker(10 * time.Millisecond); r.stats.HandshakesFailed.Load() != uint64(len(addrs)); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d handshakes have failed", r.stats.HandshakesFailed.Load())
		}
	}
	// One is in the middle of its handshake when the bridge ends.
	near, far := net.Pipe()
	defer far.Close()
	p.conns <- &from{near, addrs[0], p.release}
	end()
	if n := r.gate.open.Load(); n != 0 {
		t.Errorf("%d connections are still counted", n)
	}
}

func discard(c net.Conn) {
	b := make([]byte, 100)
	for {
		if _, err := c.Read(b); err != nil {
			return
		}
	}
}

// TestInsideMemory: what a transport may hold is taken from the relay's own bound.
func TestInsideMemory(t *testing.T) {
	c := Config{MaxMemory: 1000}
	if c.linkMemory() != 1000 {
		t.Error(c.linkMemory())
	}
	c.Inside = map[string]transport.Server{"a": nil, "b": nil}
	if c.linkMemory() != 750 || c.insideMemory() != 125 {
		t.Error(c.linkMemory(), c.insideMemory())
	}
}
