package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
)

// TestReloadBridges: of a new list of bridges, those that stay as they are stay the same, with their
// identities and their loops. A connection to one that was removed, or that is reached otherwise now, becomes no
// link, however far it has come.
func TestReloadBridges(t *testing.T) {
	fp := func(s string) string { return " " + strings.Repeat(s, 20) }
	c, err := New(Config{
		Network: netdir.Public(),
		Live: Live{
			Bridges:    bridgeLines(t, "192.0.2.1:443"+fp("AA"), "192.0.2.2:443"+fp("BB"), "x 192.0.2.3:443"+fp("CC")+" k=1"),
			Transports: transportLines(t, "x socks5 127.0.0.1:1"),
		},
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) { return nil, errors.New("refused by the test") },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	bs := c.bridge
	addr := func(n string) netip.AddrPort { return netip.MustParseAddrPort("192.0.2." + n + ":443") }
	stays, removed, changes := bs.wayTo(addr("1")), bs.wayTo(addr("2")), bs.wayTo(addr("3"))
	kept, gone := bs.all[0], bs.all[1]
	conn, other := net.Pipe()
	defer conn.Close()
	defer other.Close()
	before := func(w *way) bool { return bs.opening(conn, w) && bs.opened(conn, w.line.Addr) }
	if !before(stays) || !before(removed) || !before(changes) {
		t.Error("a connection to a bridge is no link")
	}
	if !bs.opening(conn, changes) { // on its way
		t.Error("it was refused too soon")
	}
	c.Reload(Live{Bridges: bridgeLines(t, "192.0.2.4:443"+fp("DD"), "192.0.2.1:443"+fp("AA"), "x 192.0.2.3:443"+fp("CC")+" k=2"), Transports: transportLines(t, "x socks5 127.0.0.1:1")})
	if bs.opened(conn, addr("3")) {
		t.Error("a link by the transport's old arguments")
	}
	if bs.opening(conn, removed) || bs.opening(conn, changes) || bs.opened(conn, addr("2")) {
		t.Error("a connection to a bridge that was removed goes on")
	}
	if bs.wayTo(addr("1")) != stays || !before(stays) || bs.all[1] != kept || kept.ctx.Err() != nil {
		t.Error("a bridge that stays is another")
	}
	if gone.ctx.Err() == nil {
		t.Error("a bridge that was removed is asked for its descriptor")
	}
	if _, err := c.dial(t.Context(), addr("2")); !fault.Is(err, fault.Refused) {
		t.Errorf("a bridge that was removed is dialled: %v", err)
	}
	// Another proxy is another way; the same list is not.
	now := bs.wayTo(addr("3"))
	lines := bridgeLines(t, "x 192.0.2.3:443"+fp("CC")+" k=2")
	c.Reload(Live{Bridges: lines, Transports: transportLines(t, "x socks5 127.0.0.1:1")})
	if bs.wayTo(addr("3")) != now {
		t.Error("the same way is another")
	}
	c.Reload(Live{Bridges: lines, Transports: transportLines(t, "x socks5 127.0.0.1:2")})
	if bs.wayTo(addr("3")) == now {
		t.Error("another proxy is the same way")
	}
	c.Reload(Live{})
	if len(bs.all) != 1 {
		t.Error("there are no bridges")
	}
}
