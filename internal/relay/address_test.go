package relay

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
)

// TestAllowTarget: strangers cannot make a relay connect to an address at which
// no relay can be, such as its operator's network, in any form of the address.
func TestAllowTarget(t *testing.T) {
	public, lab := &netdir.Network{}, &netdir.Network{Testing: netdir.Testing{AllowPrivateAddresses: true}}
	for addr, allowed := range map[string]bool{
		"203.0.113.1:9001": true, "[2001:db8::1]:9001": true, "203.0.113.1:0": false,
		"127.0.0.1:9001": false, "10.0.0.1:9001": false, "100.64.0.1:9001": false, "100.100.100.200:80": false, "169.254.169.254:80": false, "192.0.0.1:9001": false,
		"198.18.0.1:9001": false, "224.0.0.1:9001": false, "240.0.0.1:9001": false, "255.255.255.255:9001": false, "0.0.0.0:9001": false, "0.1.2.3:9001": false,
		"[::]:9001": false, "[::1]:9001": false, "[fe80::1]:9001": false, "[fc00::1]:9001": false, "[fec0::1]:9001": false, "[ff02::1]:9001": false,
		"[::ffff:127.0.0.1]:9001": false, "[::127.0.0.1]:9001": false, "[64:ff9b::127.0.0.1]:9001": false, "[64:ff9b:1::1]:9001": false,
		"[2002:7f00:1::1]:9001": false, "[2001::80ff:fffe]:9001": false,
	} {
		good, a := netip.MustParseAddrPort("198.51.100.1:9001"), netip.MustParseAddrPort(addr)
		target := func(list ...netip.AddrPort) *linkspec.Target { return &linkspec.Target{Addrs: list} }
		alone, both, own := target(a), target(good, a), target(a)
		err := (&Relay{cfg: Config{Network: public}}).allowTarget(alone)
		if (err == nil) != allowed || err != nil && !fault.Is(err, fault.Protocol) {
			t.Errorf("%s: %v", addr, err)
		}
		// The relay's other address is enough, and the only one that is used.
		if err := (&Relay{cfg: Config{Network: public}}).allowTarget(both); err != nil || slices.Contains(both.Addrs, a) != allowed || both.Addrs[0] != good {
			t.Errorf("%s as the second: %v, %v", addr, both.Addrs, err)
		}
		if err := (&Relay{cfg: Config{Network: lab}}).allowTarget(own); err != nil || len(own.Addrs) != 1 {
			t.Errorf("%s in a network of one's own: %v", addr, err)
		}
	}
}

// TestOwnAddresses: an exit opens no connection to any of the relay's configured
// addresses, in any form of the address.
func TestOwnAddresses(t *testing.T) {
	c := Config{}
	for _, s := range []string{"[::ffff:198.51.100.1]:9001", "[2001:db8::1]:9001"} {
		c.Advertise = append(c.Advertise, netip.MustParseAddrPort(s))
	}
	for _, s := range []string{"0.0.0.0:9001", "10.0.0.1:9001", "198.51.100.1:9002"} {
		c.Listen = append(c.Listen, netip.MustParseAddrPort(s))
	}
	want := []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("10.0.0.1")}
	got := c.Addresses()
	if len(got) != len(want) {
		t.Fatal(got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Error(got[i], "not", want[i])
		}
	}
}

// TestWithPorts: an address without a port gets that of the listener of its family. A listener
// at all addresses serves both.
func TestWithPorts(t *testing.T) {
	var listeners []net.Listener
	for _, a := range []string{"127.0.0.1:0", "127.0.0.1:0"} {
		ln, err := net.Listen("tcp", a)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		listeners = append(listeners, ln)
	}
	first, second := netaddr.OfPort(listeners[0].Addr()).Port(), netaddr.OfPort(listeners[1].Addr()).Port()
	four, six := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8::1")
	addrs := []netip.AddrPort{netip.AddrPortFrom(six, 0), netip.AddrPortFrom(four, 0), netip.AddrPortFrom(four, 443)}
	for name, c := range map[string]struct {
		listen []string
		want   []uint16
	}{
		"both families": {[]string{"0.0.0.0:0", "[::]:0"}, []uint16{second, first, 443}},
		"one":           {[]string{"0.0.0.0:0", "127.0.0.1:0"}, []uint16{first, first, 443}},
		"the other":     {[]string{"[::]:0", "[::1]:0"}, []uint16{first, first, 443}},
	} {
		var listen []netip.AddrPort
		for _, s := range c.listen {
			listen = append(listen, netip.MustParseAddrPort(s))
		}
		var got []uint16
		for _, a := range withPorts(addrs, listen, listeners) {
			got = append(got, a.Port())
		}
		if !slices.Equal(got, c.want) || addrs[0].Port() != 0 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
