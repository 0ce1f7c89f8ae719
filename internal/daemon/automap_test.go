package daemon

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestAutomapPorts: with the option, the DNS port gives a name an address, and other ports connect
// from that to the name, until the next new identity.
func TestAutomapPorts(t *testing.T) {
	r := run(t, web(t), "--dns", "127.0.0.1:0", "--automap-hosts-on-resolve", "--virtual-addr-network-ipv4", "10.64.0.0/10", "--automap-hosts-suffixes", ".test")
	socks, dns := r.port(t, "socks"), r.port(t, "dns")
	addrs, err := asking(dns).LookupHost(t.Context(), "host.test.")
	if err != nil || len(addrs) != 2 || !strings.HasPrefix(addrs[0], "10.") || !strings.HasPrefix(addrs[1], "fd15:159f:ab53:") {
		t.Fatalf("the addresses %q, %v", addrs, err)
	}
	if code := connect4(t, socks, addrs[0]); code != 0x5a {
		t.Errorf("a connection to the address: %#x", code)
	}
	if _, err := NewIdentity(t.Context(), r.dir); err != nil {
		t.Fatal(err)
	}
	if code := connect4(t, socks, addrs[0]); code == 0x5a {
		t.Error("the address has its name after a new identity")
	}
	if d := r.client.dialled; len(d) != 1 || d[0] != "host.test:80" {
		t.Errorf("the client was asked for %q", d)
	}
	r.finish(t)

	r = run(t, web(t), "--dns", "127.0.0.1:0", "--automap-hosts-suffixes", ".test")
	r.port(t, "socks")
	if addrs, err := asking(r.port(t, "dns")).LookupHost(t.Context(), "host.test."); err != nil || addrs[0] != "192.0.2.1" {
		t.Errorf("without the option: %q, %v", addrs, err)
	}
	r.finish(t)
}

// asking returns a resolver that asks a DNS port.
func asking(dns string) *net.Resolver {
	return &net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, dns)
	}}
}

// connect4 asks a SOCKS port for an address, and returns the code of its answer.
func connect4(t *testing.T, socks, to string) byte {
	t.Helper()
	c, err := net.Dial("tcp", socks)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	b := netip.MustParseAddr(to).As4()
	reply := make([]byte, 8)
	if _, err := c.Write([]byte{4, 1, 0, 80, b[0], b[1], b[2], b[3], 0}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, reply); err != nil {
		t.Fatal(err)
	}
	return reply[1]
}
