package builtin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/transport"
)

// serverConfig is what a bridge tells a transport at a port of loopback.
func serverConfig(t *testing.T, options map[string]string) transport.ServerConfig {
	return transport.ServerConfig{
		Addr: netip.MustParseAddrPort("127.0.0.1:0"), Options: options, Dir: t.TempDir(), MaxConns: 64, Log: slog.New(slog.DiscardHandler),
		Listen: new(net.ListenConfig).Listen,
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// carries checks that bytes pass from a client to what the listener accepts.
func carries(t *testing.T, ln net.Listener, client net.Conn) (from net.Addr) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	client.SetDeadline(end)
	go client.Write([]byte("hello"))
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	server.SetDeadline(end)
	b := make([]byte, 5)
	if _, err := io.ReadFull(server, b); err != nil || string(b) != "hello" {
		t.Fatalf("%q %v", b, err)
	}
	return server.RemoteAddr()
}

// TestInside: both sides of each transport meet, by the arguments that the bridge tells, and the bridge sees the client's address.
func TestInside(t *testing.T) {
	for _, name := range Names {
		kind, ok := Of(name)
		if !ok {
			t.Fatal(name)
		}
		ln, tell, err := kind.Listen(within(t), serverConfig(t, map[string]string{"format": "words"}))
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		c, err := kind.Dial(within(t), new(net.Dialer).DialContext, netaddr.OfPort(ln.Addr()), tell)
		if err != nil {
			t.Fatal(err)
		}
		if from := carries(t, ln, c); from.String() != c.LocalAddr().String() {
			t.Errorf("%s: the client is at %v, not at %v", name, c.LocalAddr(), from)
		}
		c.Close()
	}
	if _, ok := Of("obfs4"); ok {
		t.Error("it has a transport that it has not")
	}
}

// TestInsideRefuses: wrong arguments reach nobody, and a handshake that fails or takes too long leaves no connection.
func TestInsideRefuses(t *testing.T) {
	to := netip.MustParseAddrPort("192.0.2.1:443")
	for name, args := range map[string]map[string]string{"chive": {}, "fte": {"key": "x"}} {
		kind, _ := Of(name)
		dialled := false
		c, err := kind.Dial(within(t), func(context.Context, string, string) (net.Conn, error) {
			dialled = true
			return nil, errors.New("refused by the test")
		}, to, args)
		if c != nil || err == nil || dialled {
			t.Errorf("%s: dialled %v: %v", name, dialled, err)
		}
		ln, tell, err := kind.Listen(within(t), serverConfig(t, map[string]string{"nonsense": "1"}))
		if ln != nil || tell != nil || !fault.Is(err, fault.Config) {
			t.Errorf("%s: %v", name, err)
		}
	}
	fte, _ := Of("fte")
	near, far := net.Pipe() // whose other end reads nothing
	defer far.Close()
	ctx, cancel := context.WithCancelCause(within(t))
	stopped := errors.New("stopped by the test")
	go cancel(stopped)
	if c, err := fte.Dial(ctx, func(context.Context, string, string) (net.Conn, error) { return near, nil }, to, nil); c != nil || err == nil {
		t.Errorf("a bridge that does not take the hello: %v", err)
	}
	if _, err := near.Write([]byte{1}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection is open: %v", err)
	}
}

// TestInsideSilent: strangers who open connections and say nothing keep nobody out, and the transport holds few of them.
func TestInsideSilent(t *testing.T) {
	fte, _ := Of("fte")
	cfg := serverConfig(t, map[string]string{"key": strings.Repeat("5c", 32)})
	ln, tell, err := fte.Listen(within(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	const most = 32
	var silent []net.Conn
	for range 2 * most {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		silent = append(silent, c)
	}
	for i, c := range silent[:most] { // the oldest were closed for the others
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	c, err := fte.Dial(within(t), new(net.Dialer).DialContext, netaddr.OfPort(ln.Addr()), tell)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	carries(t, ln, c)
}

// TestInsidePublicKey: the log warns of the key that everybody has, and of no other.
func TestInsidePublicKey(t *testing.T) {
	fte, _ := Of("fte")
	for key, public := range map[string]bool{"": true, strings.Repeat("5c", 32): false} {
		var log bytes.Buffer
		cfg := serverConfig(t, nil)
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		if key != "" {
			cfg.Options = map[string]string{"key": key}
		}
		ln, _, err := fte.Listen(within(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		ln.Close()
		if strings.Contains(log.String(), "public") != public || strings.Contains(log.String(), "5c5c") {
			t.Errorf("%q: %s", key, log.String())
		}
	}
}
