package client

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/upstream"
)

// TestOutbound: relays and the proxy see the address that the user wants; if the machine does
// not have it, there is no connection.
func TestOutbound(t *testing.T) {
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
	seen := make(chan string, 10)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			seen <- host
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			}
			c.Close()
		}
	}()
	to := netaddr.OfPort(ln.Addr())
	proxy, err := upstream.Parse("http://" + to.String())
	if err != nil {
		t.Fatal(err)
	}
	network := *netdir.Public()
	network.Authorities, network.Fallbacks = nil, nil // the test alone connects
	for from, want := range map[string]string{"": "127.0.0.1", "127.0.0.2": "127.0.0.2", "192.0.2.5": "127.0.0.1"} {
		cfg := Config{Network: &network}
		if cfg.Outbound.OR, err = netaddr.ParseSources(strings.Fields(from)); err != nil {
			t.Fatal(err)
		}
		for _, up := range []*upstream.Proxy{nil, proxy} {
			cfg.Upstream = up
			c, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			relay := to
			if up != nil {
				relay = netip.MustParseAddrPort("198.51.100.1:9001") // which only the proxy would reach
			}
			conn, err := c.connect(t.Context(), relay)
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			if got := <-seen; got != want {
				t.Errorf("from %q, by %v: the other side sees %s", from, up, got)
			}
			if from == "192.0.2.5" && up == nil {
				if _, err := c.connect(t.Context(), netip.MustParseAddrPort("198.51.100.1:9001")); !errors.Is(err, syscall.EADDRNOTAVAIL) {
					t.Errorf("without the address: %v", err)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
