package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/transport"
)

func bridgeLines(t *testing.T, lines ...string) (out []pt.BridgeLine) {
	t.Helper()
	for _, s := range lines {
		l, err := pt.ParseBridgeLine(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

func transportLines(t *testing.T, lines ...string) (out []pt.TransportLine) {
	t.Helper()
	for _, s := range lines {
		l, err := pt.ParseTransportLine(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

func TestCheckBridges(t *testing.T) {
	fp := strings.Repeat("AB", 20)
	for name, c := range map[string]struct {
		bridges, transports []string
		inside              map[string]transport.Client
		proxied             bool
		ok                  bool
	}{
		"none":             {ok: true},
		"plain":            {bridges: []string{"192.0.2.1:1 " + fp, "192.0.2.1:2", "192.0.2.2:1"}, ok: true},
		"transport":        {bridges: []string{"x 192.0.2.1:1"}, transports: []string{"x,y exec /p"}, ok: true},
		"no transport":     {bridges: []string{"x 192.0.2.1:1"}, transports: []string{"y exec /p"}},
		"same address":     {bridges: []string{"192.0.2.1:1", "x 192.0.2.1:1"}, transports: []string{"x exec /p"}},
		"same fingerprint": {bridges: []string{"192.0.2.1:1 " + fp, "192.0.2.1:2 " + fp}},
		"both families":    {bridges: []string{"192.0.2.1:1 " + fp, "x [2001:db8::1]:1 " + fp}, transports: []string{"x exec /p"}, ok: true},
		"a third address":  {bridges: []string{"192.0.2.1:1 " + fp, "[2001:db8::1]:1 " + fp, "[2001:db8::1]:2 " + fp}},
		"proxied":          {transports: []string{"x exec /p"}, proxied: true, ok: true},
		"around the proxy": {transports: []string{"x socks5 127.0.0.1:1"}, proxied: true},
		"inside":           {bridges: []string{"x 192.0.2.1:1"}, inside: map[string]transport.Client{"x": insideFunc(nil)}, proxied: true, ok: true},
		"another inside":   {bridges: []string{"x 192.0.2.1:1"}, inside: map[string]transport.Client{"y": insideFunc(nil)}},
		"two plugins":      {transports: []string{"x exec /p", "y,x socks5 127.0.0.1:1"}},
	} {
		err := CheckBridges(bridgeLines(t, c.bridges...), transportLines(t, c.transports...), c.inside, c.proxied)
		if (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Config) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOnlyBridgesAreDialled: with a network full of fallbacks, a client with an
// unreachable bridge dials that bridge alone, and its channel manager may not
// dial anything else.
func TestOnlyBridgesAreDialled(t *testing.T) {
	bridge := netip.MustParseAddrPort("10.1.2.3:443") // private: the user's own word
	tried := make(chan netip.AddrPort, 100)
	c, err := New(Config{
		Network: netdir.Public(), Live: Live{Bridges: bridgeLines(t, bridge.String()+" "+strings.Repeat("AB", 20))},
		Dial: func(_ context.Context, a netip.AddrPort) (net.Conn, error) {
			tried <- a
			return nil, errors.New("refused by the test")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		select {
		case a := <-tried:
			if a != bridge {
				t.Fatalf("dialled %v", a)
			}
		case <-ctx.Done():
			t.Fatal("the bridge is not tried again")
		}
	}
	if _, err := c.dial(ctx, netdir.Public().Authorities[0].ORPorts[0]); !fault.Is(err, fault.Refused) {
		t.Errorf("dial an authority: %v", err)
	}
	if s := c.Status(); len(s.Bridges) != 1 || s.Bridges[0].Usable || !strings.Contains(s.Bridges[0].Problem, "refused by the test") || s.Guards.Set != "bridges" {
		t.Errorf("status %+v", s.Bridges)
	}
}

// TestBridgeOfTwoAddresses: lines with one fingerprint are one bridge, whose addresses are all
// tried.
func TestBridgeOfTwoAddresses(t *testing.T) {
	fp := " " + strings.Repeat("AB", 20)
	tried := make(chan netip.AddrPort, 100)
	c, err := New(Config{
		Network: netdir.Public(), Live: Live{Bridges: bridgeLines(t, "192.0.2.1:443"+fp, "192.0.2.2:443 "+strings.Repeat("CD", 20), "[2001:db8::1]:443"+fp)},
		Dial: func(_ context.Context, a netip.AddrPort) (net.Conn, error) {
			tried <- a
			return nil, errors.New("refused by the test")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for seen := map[netip.AddrPort]bool{}; len(seen) < 3; {
		select {
		case a := <-tried:
			seen[a] = true
		case <-ctx.Done():
			t.Fatalf("only these were tried: %v", seen)
		}
	}
	if s := c.Status(); len(s.Bridges) != 2 {
		t.Errorf("status %+v", s.Bridges)
	}
}

// TestTransportDies: a bridge whose transport cannot be started is reported,
// and the bridge's own address is not dialled instead.
func TestTransportDies(t *testing.T) {
	var dialled atomic.Int64
	c, err := New(Config{
		Network: netdir.Public(), Live: Live{Bridges: bridgeLines(t, "x 192.0.2.1:443 "+strings.Repeat("AB", 20)), Transports: transportLines(t, "x exec /nonexistent/transport")},
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			dialled.Add(1)
			return nil, errors.New("refused by the test")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	temp := c.bridge.temp
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !strings.Contains(c.Bootstrap().Problem, "transport x") {
		tick := time.NewTimer(10 * time.Millisecond)
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%+v", c.Bootstrap())
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n := dialled.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
	if _, err := os.Stat(temp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the transports' directory is left behind: %v", err)
	}
}
