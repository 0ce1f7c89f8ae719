package pt

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/url"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// proxied runs an HTTP proxy whose answer is head, then what last does, and then
// the end of the head; and connects through it.
func proxied(t *testing.T, ctx context.Context, head string, last func()) (net.Conn, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := readHead(bufio.NewReader(c)); err != nil {
			return
		}
		io.WriteString(c, head+"\r\n\r")
		last()
		io.WriteString(c, "\nhello")
	}()
	dial, err := dialer(&url.URL{Scheme: "http", Host: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	return dial(ctx, "192.0.2.1:80")
}

func TestHTTPProxy(t *testing.T) {
	c, err := proxied(t, t.Context(), "HTTP/1.1 200 yes", func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if b, err := io.ReadAll(c); err != nil || string(b) != "hello" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := proxied(t, t.Context(), "HTTP/1.1 403 no", func() {}); !fault.Is(err, fault.Network) {
		t.Error(err)
	}
}

// TestHTTPProxyTooLate: when the context ends while the proxy answers, there is no
// connection: it could have the deadline that ends the wait.
func TestHTTPProxyTooLate(t *testing.T) {
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := proxied(t, ctx, "HTTP/1.1 200 yes", cancel); !fault.Is(err, fault.Timeout) {
			t.Error(err)
		}
	}
}
