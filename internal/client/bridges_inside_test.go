package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/transport"
	"github.com/chivenet/chive/internal/upstream"
)

// insideFunc is a transport.
type insideFunc func(ctx context.Context, dial transport.DialFunc, bridge netip.AddrPort, args map[string]string) (net.Conn, error)

func (f insideFunc) Dial(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), bridge netip.AddrPort, args map[string]string) (net.Conn, error) {
	return f(ctx, dial, bridge, args)
}

// asked is what one use of a transport's dial gave.
type asked struct {
	network, addr string
	err           error
}

// insideClient runs a client of one bridge whose transport asks for connections. It returns what became of
// them, and to where the client connected.
func insideClient(t *testing.T, cfg Config, ask ...asked) (got []asked, dialled []string) {
	t.Helper()
	to := make(chan string, 100)
	cfg.Network = netdir.Public()
	cfg.Bridges = bridgeLines(t, "x 192.0.2.1:443 "+strings.Repeat("AB", 20)+" k=v")
	cfg.Dial = func(_ context.Context, a netip.AddrPort) (net.Conn, error) {
		to <- a.String()
		return nil, errors.New("refused by the test")
	}
	done := make(chan []asked)
	cfg.Inside = map[string]transport.Client{"x": insideFunc(func(ctx context.Context, dial transport.DialFunc, bridge netip.AddrPort, args map[string]string) (net.Conn, error) {
		if bridge.String() != "192.0.2.1:443" || len(args) != 1 || args["k"] != "v" {
			t.Errorf("it is asked for %v with %v", bridge, args)
		}
		var out []asked
		for _, a := range ask {
			_, a.err = dial(ctx, a.network, a.addr)
			out = append(out, a)
		}
		select {
		case done <- out:
		case <-ctx.Done():
		}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case got = <-done:
	case <-time.After(time.Minute):
		t.Error("the transport is not asked")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	close(to)
	for a := range to {
		dialled = append(dialled, a)
	}
	return got, dialled
}

// TestInsideDial: a transport reaches addresses only, within the user's rules. Nothing else is dialled.
func TestInsideDial(t *testing.T) {
	reach, err := path.ParseReach([]string{"192.0.2.0/24:443", "[2001:db8::]/32:443"})
	if err != nil {
		t.Fatal(err)
	}
	got, dialled := insideClient(t, Config{Live: Live{Path: path.Config{Reachable: reach}}},
		asked{network: "tcp", addr: "192.0.2.1:443"}, asked{network: "tcp4", addr: "192.0.2.2:443"}, asked{network: "tcp6", addr: "[2001:db8::1]:443"}, asked{network: "tcp", addr: "[::ffff:192.0.2.3]:443"},
		asked{network: "tcp", addr: "192.0.2.1:80"}, asked{network: "tcp", addr: "198.51.100.1:443"},
		asked{network: "tcp", addr: "localhost:443"}, asked{network: "tcp", addr: "bridge.example:443"}, asked{network: "tcp", addr: "192.0.2.1"}, asked{network: "tcp", addr: "[fe80::1%lo]:443"},
		asked{network: "udp", addr: "192.0.2.1:443"}, asked{network: "tcp6", addr: "192.0.2.1:443"}, asked{network: "tcp4", addr: "[2001:db8::1]:443"}, asked{network: "", addr: "192.0.2.1:443"},
	)
	for i, a := range got {
		switch {
		case i < 4 && !strings.Contains(a.err.Error(), "refused by the test"):
			t.Errorf("%+v", a)
		case (i == 4 || i == 5) && !errors.Is(a.err, path.ErrUnreachable):
			t.Errorf("%+v", a)
		case i > 5 && !fault.Is(a.err, fault.Refused):
			t.Errorf("%+v", a)
		}
	}
	if want := "192.0.2.1:443 192.0.2.2:443 [2001:db8::1]:443 192.0.2.3:443"; strings.Join(dialled, " ") != want {
		t.Errorf("dialled %v", dialled)
	}
}

// TestInsideProxy: a transport connects through the upstream proxy, and to nothing else when that fails.
func TestInsideProxy(t *testing.T) {
	proxy, err := upstream.Parse("socks5://198.51.100.7:1080")
	if err != nil {
		t.Fatal(err)
	}
	got, dialled := insideClient(t, Config{Upstream: proxy}, asked{network: "tcp", addr: "192.0.2.1:443"}, asked{network: "tcp", addr: "203.0.113.1:80"})
	for _, a := range got {
		if !upstream.Failed(a.err) {
			t.Errorf("%+v", a)
		}
	}
	if len(dialled) < 2 {
		t.Errorf("dialled %v", dialled)
	}
	for _, a := range dialled {
		if a != "198.51.100.7:1080" {
			t.Errorf("dialled %v", a)
		}
	}
}

// TestInsideSource: a transport connects from the address that the user wants for transports.
func TestInsideSource(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if second, err := net.Listen("tcp", "127.0.0.2:0"); err != nil {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: no second loopback address: %v", err)
	} else {
		second.Close()
	}
	network := *netdir.Public()
	network.Authorities, network.Fallbacks = nil, nil // the test alone connects
	cfg := Config{Network: &network}
	if cfg.Outbound.PT, err = netaddr.ParseSources([]string{"127.0.0.2"}); err != nil {
		t.Fatal(err)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn, err := c.dialInside(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if from := netaddr.Of(conn.LocalAddr()); from.String() != "127.0.0.2" {
		t.Errorf("it comes from %v", from)
	}
}

// TestInsideStays: a client ends at once though its transport does not, and though its connection does not close.
func TestInsideStays(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	asked := make(chan struct{}, 100)
	a, b := net.Pipe()
	defer b.Close()
	var given atomic.Bool
	c, err := New(Config{
		Network: netdir.Public(), Live: Live{Bridges: bridgeLines(t, "x 192.0.2.1:443 "+strings.Repeat("AB", 20), "y 192.0.2.2:443 "+strings.Repeat("CD", 20))},
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) { return nil, errors.New("refused by the test") },
		Inside: map[string]transport.Client{
			"x": insideFunc(func(context.Context, transport.DialFunc, netip.AddrPort, map[string]string) (net.Conn, error) {
				asked <- struct{}{}
				<-release
				return nil, errors.New("too late")
			}),
			"y": insideFunc(func(ctx context.Context, _ transport.DialFunc, _ netip.AddrPort, _ map[string]string) (net.Conn, error) {
				if given.Swap(true) {
					return nil, errors.New("only once")
				}
				return &stays{a, asked, release}, nil
			}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-asked:
		case <-time.After(time.Minute):
			t.Fatal("a transport is not asked")
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the client waits for its transports")
	}
}

// stays is a connection whose Close waits.
type stays struct {
	net.Conn
	wrote   chan struct{}
	release chan struct{}
}

func (c *stays) Write(b []byte) (int, error) {
	select {
	case c.wrote <- struct{}{}:
	default:
	}
	return c.Conn.Write(b)
}

func (c *stays) Close() error {
	<-c.release
	return c.Conn.Close()
}
