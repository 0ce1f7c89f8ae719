package chive

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/stream"
)

// TestRequest: all that a program says by a context and a text is in the one value that goes to the
// circuit, in whatever order it was said.
func TestRequest(t *testing.T) {
	c := openClient(t)
	early := []byte("early")
	for name, wrap := range map[string]func(context.Context) context.Context{
		"one order": func(ctx context.Context) context.Context {
			return WithEarlyData(WithIPFamily(WithExitCountry(WithIsolateEveryStream(WithIsolation(ctx, "a")), "DE"), FamilyIPv6Only), early)
		},
		"another": func(ctx context.Context) context.Context {
			return WithIsolation(WithIsolateEveryStream(WithExitCountry(WithIPFamily(WithEarlyData(ctx, early), FamilyIPv6Only), "DE")), "a")
		},
	} {
		ctx, cancel := context.WithCancel(wrap(t.Context()))
		cancel() // it is the context that was wrapped
		req, err := c.request(ctx, "tcp", "[2001:db8::1]:443")
		if err != nil || ctx.Err() == nil {
			t.Fatal(name, err)
		}
		want := isolation.Key{Auth: isolation.NewAuth("a"), Country: "de", Stream: req.Key.Stream}
		if req.Host != "2001:db8::1" || req.Port != 443 || req.Family != stream.IPv6Only || string(req.Early) != "early" || req.Permit != nil || req.Key != want || req.Key.Stream == 0 {
			t.Errorf("%s: %q %d, family %v", name, req.Host, req.Port, req.Family)
		}
	}
	req, err := c.request(t.Context(), "tcp", "host.example:80")
	if err != nil || req.Key != (isolation.Key{}) || req.Family != stream.AnyFamily || req.Early != nil {
		t.Error("without a wish:", err)
	}
	for _, addr := range []string{"host.example", "host.example:0", "host.example:65536", "host.example:http"} {
		if _, err := c.request(t.Context(), "tcp", addr); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// TestAsker: the ports' requests reach the client as they are, and the client adds its own to their keys.
func TestAsker(t *testing.T) {
	c, err := New(Config{Network: silent(t), DataDir: t.TempDir(), IsolateDestPort: true, MapAddress: []string{"192.0.2.7 host.example"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	child := c.Isolated()
	given := isolation.Key{By: isolation.ByProtocol, Listener: "socks0", Protocol: "socks5", Country: "de", Stream: 7}
	want := given
	want.By |= isolation.ByDestPort
	want.Child, want.Port = child.token, 80
	if got := child.own(given, "host.example", 80); got != want {
		t.Error("the key is another")
	}
	a := client.AskerOf(child)
	if to, other := a.StandsFor("192.0.2.7"), a.StandsFor("192.0.2.8"); to != "host.example" || other != "192.0.2.8" {
		t.Errorf("they stand for %q and %q", to, other)
	}
	barred := errors.New("barred")
	req := client.Request{Host: "192.0.2.7", Port: 80, Permit: func(host string) error {
		if host == "host.example" {
			return barred
		}
		return nil
	}}
	for name, ask := range map[string]func() (net.Conn, error){
		"dial":   func() (net.Conn, error) { return a.DialRequest(t.Context(), req) },
		"dialed": func() (net.Conn, error) { return c.DialContext(t.Context(), "tcp", "host.exit:80") },
	} {
		if conn, err := ask(); conn != nil || err == nil || name == "dial" && err != barred {
			t.Errorf("%s: %v, %v", name, conn, err)
		}
	}
	cfg := c.Config()
	cfg.MapAddress = []string{"192.0.2.8 other.example"}
	if err := c.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if to, other := a.StandsFor("192.0.2.7"), a.StandsFor("192.0.2.8"); to != "192.0.2.7" || other != "other.example" {
		t.Errorf("after a reload they stand for %q and %q", to, other)
	}
}
