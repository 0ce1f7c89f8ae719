package netaddr

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// cases are the IANA's registries, block by block, and both ends of many.
var cases = []struct {
	addr    string
	public  bool
	carried string
}{
	{"0.0.0.0", false, ""}, {"0.1.2.3", false, ""}, {"1.0.0.0", true, ""},
	{"9.255.255.255", true, ""}, {"10.0.0.0", false, ""}, {"10.255.255.255", false, ""}, {"11.0.0.0", true, ""},
	{"100.63.255.255", true, ""}, {"100.64.0.0", false, ""}, {"100.100.100.200", false, ""}, {"100.127.255.255", false, ""}, {"100.128.0.0", true, ""},
	{"126.255.255.255", true, ""}, {"127.0.0.1", false, ""}, {"127.255.255.255", false, ""}, {"128.0.0.0", true, ""},
	{"169.253.255.255", true, ""}, {"169.254.169.254", false, ""}, {"169.255.0.0", true, ""},
	{"172.15.255.255", true, ""}, {"172.16.0.1", false, ""}, {"172.31.255.255", false, ""}, {"172.32.0.0", true, ""},
	{"192.0.0.0", false, ""}, {"192.0.0.8", false, ""}, {"192.0.0.9", true, ""}, {"192.0.0.10", true, ""}, {"192.0.0.170", false, ""}, {"192.0.0.171", false, ""}, {"192.0.1.0", true, ""},
	{"192.31.196.1", true, ""}, {"192.52.193.1", true, ""}, {"192.175.48.1", true, ""},
	{"192.88.98.1", true, ""}, {"192.88.99.1", false, ""}, {"192.88.100.1", true, ""},
	{"192.167.255.255", true, ""}, {"192.168.0.1", false, ""}, {"192.169.0.0", true, ""},
	{"198.17.255.255", true, ""}, {"198.18.0.1", false, ""}, {"198.19.255.255", false, ""}, {"198.20.0.0", true, ""},
	{"223.255.255.255", true, ""}, {"224.0.0.1", false, ""}, {"239.255.255.255", false, ""}, {"240.0.0.1", false, ""}, {"255.255.255.255", false, ""},
	{"8.8.8.8", true, ""},
	// For documentation.
	{"192.0.2.1", true, ""}, {"198.51.100.1", true, ""}, {"203.0.113.1", true, ""}, {"2001:db8::1", true, ""}, {"3fff::1", true, ""},

	{"::", false, ""}, {"::1", false, ""}, {"::1%eth0", false, ""},
	{"::ffff:127.0.0.1", false, ""}, {"::ffff:10.0.0.1", false, ""}, {"::ffff:8.8.8.8", true, ""},
	{"::8.8.8.8", true, "8.8.8.8"}, {"::127.0.0.1", false, "127.0.0.1"}, {"::2", false, "0.0.0.2"},
	{"::ffff:0:192.168.0.1", false, "192.168.0.1"}, {"::ffff:0:8.8.8.8", true, "8.8.8.8"},
	{"64:ff9b::8.8.8.8", true, "8.8.8.8"}, {"64:ff9b::127.0.0.1", false, "127.0.0.1"}, {"64:ff9b::100.64.0.1", false, "100.64.0.1"},
	{"64:ff9b:0:0:0:1::", false, ""}, {"64:ff9b:1::8.8.8.8", false, ""}, {"64:ff9b:1:ffff::1", false, ""}, {"64:ff9b:2::1", false, ""},
	{"100::1", false, ""}, {"100:0:0:1::1", false, ""},
	{"2001::f7f7:f7f7", true, "8.8.8.8"}, {"2001:0:808:808::80ff:fffe", false, "127.0.0.1"},
	{"2001:1::", false, ""}, {"2001:1::1", true, ""}, {"2001:1::2", true, ""}, {"2001:1::3", true, ""}, {"2001:1::4", false, ""},
	{"2001:2::1", false, ""}, {"2001:3::1", true, ""}, {"2001:4:112::1", true, ""}, {"2001:4:113::1", false, ""},
	{"2001:10::1", false, ""}, {"2001:20::1", true, ""}, {"2001:30::1", true, ""}, {"2001:1ff:ffff::1", false, ""}, {"2001:200::1", true, ""},
	{"2001:4860:4860::8888", true, ""}, {"2620:4f:8000::1", true, ""}, {"2a00::1", true, ""}, {"3fff:ffff::1", true, ""}, {"1fff::1", false, ""}, {"4000::1", false, ""},
	{"2002:808:808::1", true, "8.8.8.8"}, {"2002:7f00:1::1", false, "127.0.0.1"}, {"2002:a9fe:a9fe::", false, "169.254.169.254"}, {"2002:c000:201::1", true, "192.0.2.1"},
	{"5f00::1", false, ""}, {"fbff::1", false, ""}, {"fc00::1", false, ""}, {"fd12:3456::1", false, ""}, {"fdff::1", false, ""},
	{"fe80::1", false, ""}, {"fe80::1%eth0", false, ""}, {"febf::1", false, ""}, {"fec0::1", false, ""}, {"feff::1", false, ""}, {"ff02::1", false, ""}, {"ff0e::1", false, ""},
}

func TestPublic(t *testing.T) {
	for _, c := range cases {
		a := netip.MustParseAddr(c.addr)
		if Public(a) != c.public {
			t.Errorf("Public(%s) is %v", c.addr, !c.public)
		}
		carried, ok := Carried(a)
		if ok != (c.carried != "") || ok && carried.String() != c.carried {
			t.Errorf("%s carries %v %v, not %q", c.addr, carried, ok, c.carried)
		}
		// However IPv4 is written, the answer is the same.
		if a.Is4() {
			b := a.As4()
			mapped := netip.AddrFrom16(a.As16())
			nat64 := netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b, 12: b[0], b[1], b[2], b[3]})
			sixToFour := netip.AddrFrom16([16]byte{0x20, 2, b[0], b[1], b[2], b[3], 15: 1})
			teredo := netip.AddrFrom16([16]byte{0x20, 1, 4: 8, 8, 8, 8, 12: ^b[0], ^b[1], ^b[2], ^b[3]})
			for _, x := range []netip.Addr{mapped, mapped.WithZone("eth0"), nat64, sixToFour, teredo} {
				if Public(x) != c.public {
					t.Errorf("Public(%s) is %v, and Public(%s) %v", x, !c.public, a, c.public)
				}
			}
		}
	}
	if Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// TestExitPrivate: the list is what C tor prints, in its order.
func TestExitPrivate(t *testing.T) {
	want := []string{"0.0.0.0/8", "169.254.0.0/16", "127.0.0.0/8", "192.168.0.0/16", "10.0.0.0/8", "172.16.0.0/12", "::/8", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "::/127"}
	var got []string
	for _, p := range ExitPrivate() {
		got = append(got, p.String())
		if !IsExitPrivate(p) {
			t.Error(p, "is not of the list")
		}
		// What C tor takes for private is private here, but for what carries a
		// public address in ::/8.
		if Public(p.Addr()) {
			t.Error(p, "is public")
		}
	}
	if !slices.Equal(got, want) {
		t.Error(got)
	}
	if IsExitPrivate(netip.MustParsePrefix("100.64.0.0/10")) || IsExitPrivate(netip.MustParsePrefix("10.0.0.0/9")) {
		t.Error("a network that is not of the list")
	}
	ExitPrivate()[0] = netip.Prefix{}
	if !exitPrivate[0].IsValid() {
		t.Error("a caller changed the list")
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{"::ffff:192.0.2.1": "192.0.2.1", "192.0.2.1": "192.0.2.1", "fe80::1%eth0": "fe80::1", "2001:db8::1": "2001:db8::1"} {
		if got := Plain(netip.MustParseAddr(in)); got != netip.MustParseAddr(want) {
			t.Errorf("%s: %s", in, got)
		}
		if got := PlainPort(netip.AddrPortFrom(netip.MustParseAddr(in), 9)); got != netip.AddrPortFrom(netip.MustParseAddr(want), 9) {
			t.Errorf("%s: %s", in, got)
		}
	}
	if Plain(netip.Addr{}).IsValid() {
		t.Error("no address became one")
	}
}

func TestPeer(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1": "192.0.2.1/32", "::ffff:192.0.2.1": "192.0.2.1/32", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := Peer(netip.MustParseAddr(in)); got.String() != want {
			t.Errorf("%s: %s", in, got)
		}
	}
	if Peer(netip.Addr{}) != (netip.Prefix{}) {
		t.Error("no address is a peer of its own kind")
	}
	if n := testing.AllocsPerRun(100, func() { Peer(netip.AddrFrom4([4]byte{192, 0, 2, 1})) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSameSubnet(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"192.0.2.1", "192.0.99.1", true}, {"192.0.2.1", "192.1.2.1", false}, {"192.0.2.1", "::ffff:192.0.3.1", true},
		{"2001:db8:1::1", "2001:db8:2::1", true}, {"2001:db8::1", "2001:db9::1", false}, {"192.0.2.1", "2001:db8::1", false},
		{"0.0.0.0", "::", false},
	} {
		if got := SameSubnet(netip.MustParseAddr(c.a), netip.MustParseAddr(c.b)); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
	if SameSubnet(netip.Addr{}, netip.Addr{}) {
		t.Error("two unknown addresses are neighbours")
	}
}

func TestLocalName(t *testing.T) {
	for name, want := range map[string]bool{
		"localhost": true, "LocalHost.": true, "a.localhost": true, "local": true, "printer.local": true, "printer.Local.": true, "printer.local..": true, "localhost...": true,
		"": false, ".": false, "localhost.example": false, "mylocal": false, "alocalhost": false, "example.com": false,
	} {
		if LocalName(name) != want {
			t.Errorf("%q: not %v", name, want)
		}
	}
}

func TestHostName(t *testing.T) {
	label := strings.Repeat("a", 63)
	for name, want := range map[string]bool{
		"a": true, "example.com": true, "example.com.": true, "EXAMPLE.Com": true, "_dmarc.example-1.com": true, "1.2": true,
		label + ".com": true, label + "a.com": false, strings.Repeat("a.", 127): true, strings.Repeat("a.", 127) + "aa": false,
		"": false, ".": false, "..": false, ".a": false, "a..b": false, "a..": false, "a b": false, "a\x00b": false, "a\nb": false, "a/b": false, "a:b": false, "ä": false, "[::1]": false,
	} {
		if HostName(name) != want {
			t.Errorf("%q: not %v", name, want)
		}
	}
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		s    net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 7}, "192.0.2.1:7"},
		{&net.UDPAddr{IP: net.ParseIP("fe80::1"), Port: 7, Zone: "eth0"}, "[fe80::1]:7"},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8::1").To16(), Port: 7}, "[2001:db8::1]:7"},
	} {
		if got := OfPort(c.s); got != netip.MustParseAddrPort(c.want) || Of(c.s) != got.Addr() {
			t.Errorf("%v: %v, %v", c.s, got, Of(c.s))
		}
	}
	for _, s := range []net.Addr{nil, (*net.TCPAddr)(nil), &net.TCPAddr{}, &net.UnixAddr{Name: "/x", Net: "unix"}} {
		if OfPort(s).Addr().IsValid() {
			t.Errorf("%v has the address %v", s, OfPort(s))
		}
	}
}
