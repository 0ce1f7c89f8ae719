package relay

import (
	"net/netip"
	"testing"
)

func TestSource(t *testing.T) {
	for _, x := range []struct {
		listen []string
		to     string
		from   string
	}{
		{nil, "192.0.2.7", ""},
		{[]string{"0.0.0.0:1", "[::]:1"}, "192.0.2.7", ""},
		{[]string{"198.51.100.1:1", "[2001:db8::1]:1"}, "192.0.2.7", "198.51.100.1"},
		{[]string{"198.51.100.1:1", "[2001:db8::1]:1"}, "2001:db8::7", "2001:db8::1"},
		{[]string{"198.51.100.1:1"}, "2001:db8::7", ""},
		{[]string{"10.0.0.2:1"}, "192.0.2.7", "10.0.0.2"},
		{[]string{"127.0.0.1:1", "[::1]:1"}, "192.0.2.7", ""},
		{[]string{"127.0.0.1:1", "[::1]:1"}, "2001:db8::7", ""},
		{[]string{"127.0.0.1:1", "10.0.0.2:1"}, "192.0.2.7", "10.0.0.2"},
		{[]string{"127.0.0.2:1"}, "127.0.0.1", "127.0.0.2"},
		{[]string{"[::1]:1"}, "::1", "::1"},
		{[]string{"[fe80::1]:1"}, "2001:db8::7", ""},
	} {
		var listen []netip.AddrPort
		for _, l := range x.listen {
			listen = append(listen, netip.MustParseAddrPort(l))
		}
		var want netip.Addr
		if x.from != "" {
			want = netip.MustParseAddr(x.from)
		}
		if got := listenAddrFor(listen, netip.MustParseAddr(x.to)); got != want {
			t.Errorf("from %v to %s: %v, want %v", x.listen, x.to, got, want)
		}
	}
}
