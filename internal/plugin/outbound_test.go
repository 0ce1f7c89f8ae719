package plugin

import (
	"net"
	"net/netip"
	"testing"

	"github.com/chivenet/chive/internal/netaddr"
)

// TestOutboundDialer: a transport of ours connects from the address that Tor names, to
// addresses and to names.
func TestOutboundDialer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	if second, err := net.Listen("tcp", "127.0.0.2:0"); err != nil {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: no second loopback address: %v", err)
	} else {
		second.Close()
	}
	for _, host := range []string{"127.0.0.1", "localhost"} {
		c, err := dialer(nil, netaddr.Sources{V4: netip.MustParseAddr("127.0.0.2")})(t.Context(), net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		came, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer came.Close()
		if got := netaddr.Of(came.RemoteAddr()); got.String() != "127.0.0.2" {
			t.Errorf("%s sees %v", host, got)
		}
	}
}
