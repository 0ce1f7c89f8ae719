package plugin

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/upstream"
)

// TestDialerByProxy: a plugin reaches names and addresses through the proxy that Tor
// names, and not without it.
func TestDialerByProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, err := upstream.Parse("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				asked <- r.Method + " " + r.Host
				io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nhello")
			}
			c.Close()
		}
	}()
	dial := dialer(p, netaddr.Sources{})
	for _, to := range []string{"bridge.example:443", "[2001:db8::1]:80"} {
		c, err := dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); err != nil || string(b) != "hello" {
			t.Errorf("%q %v", b, err)
		}
		c.Close()
		if got := <-asked; got != "CONNECT "+to {
			t.Error(got)
		}
	}
	l.Close()
	if c, err := dial(t.Context(), "127.0.0.1:1"); c != nil || !fault.Is(err, fault.Network) {
		t.Errorf("with a dead proxy: %v", err)
	}
}
