package exit

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/netaddr"
)

// TestSourceAddress: targets see the address that the operator wants; if the machine does not
// have it, no other one shows.
func TestSourceAddress(t *testing.T) {
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
			c.Close()
		}
	}()
	port := netaddr.OfPort(ln.Addr()).Port()
	for from, want := range map[string]string{"": "127.0.0.1", "127.0.0.2": "127.0.0.2", "::1": "127.0.0.1", "192.0.2.5": "127.0.0.1"} {
		cfg := accept(t, "accept *:*")
		if cfg.Source, err = netaddr.ParseSources(strings.Fields(from)); err != nil {
			t.Fatal(err)
		}
		_, c := setup(t, cfg, nil)
		s, err := dial(t, c, "127.0.0.1", port)
		if err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != want {
			t.Errorf("from %q: the target sees %s", from, got)
		}
		s.Close()
	}
	cfg := accept(t, "accept *:*")
	cfg.Source.V4 = netip.MustParseAddr("192.0.2.5")
	_, c := setup(t, cfg, nil)
	_, err = dial(t, c, "198.51.100.1", 80)
	wantEnd(t, err, cell.EndNoRoute)
}
