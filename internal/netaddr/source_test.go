package netaddr

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestParseSources(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "192.0.2.5": "192.0.2.5", "[2001:db8::5] 192.0.2.5": "192.0.2.5 2001:db8::5", "2001:db8::5": "2001:db8::5", "::ffff:192.0.2.5": "192.0.2.5",
	} {
		s, err := ParseSources(strings.Fields(text))
		var got []string
		for _, a := range s.All() {
			got = append(got, a.String())
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"x": "no IP address", "[192.0.2.5]": "no IP address", "[2001:db8::5": "no IP address", "192.0.2.5:9": "no IP address", "192.0.2.0/24": "no IP address", "[]": "no IP address",
		"0.0.0.0": "no address of one machine", "[::]": "no address of one machine", "224.0.0.1": "no address of one machine", "ff02::1": "no address of one machine",
		"255.255.255.255": "no address of one machine", "fe80::1%eth0": "network card",
		"192.0.2.5 192.0.2.6": "192.0.2.5 and 192.0.2.6: one address of IPv4", "::2 [::3]": "one address of IPv6", "192.0.2.5 ::ffff:192.0.2.5": "one address of IPv4",
	} {
		if s, err := ParseSources(strings.Fields(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v %v", text, s, err)
		}
	}
}

// TestSourceTo: a connection comes from the address of its family; one inside this machine only
// if the address is for these.
func TestSourceTo(t *testing.T) {
	near, far := Sources{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("::1")}, Sources{netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")}
	for _, c := range []struct {
		s        Sources
		to, from string
	}{
		{far, "198.51.100.1", "192.0.2.5"}, {far, "2001:db8:1::1", "2001:db8::5"}, {far, "::ffff:198.51.100.1", "192.0.2.5"},
		{far, "127.0.0.1", ""}, {far, "127.9.9.9", ""}, {far, "::1", ""}, {far, "::ffff:127.0.0.1", ""}, {far, "10.0.0.1", "192.0.2.5"},
		{near, "127.0.0.1", "127.0.0.2"}, {near, "::1", "::1"}, {near, "198.51.100.1", "127.0.0.2"}, // which fails, rather than that another address shows
		{Sources{V4: far.V4}, "2001:db8:1::1", ""}, {Sources{V6: far.V6}, "198.51.100.1", ""}, {Sources{}, "198.51.100.1", ""},
	} {
		want := netip.Addr{}
		if c.from != "" {
			want = netip.MustParseAddr(c.from)
		}
		if got := c.s.To(netip.MustParseAddr(c.to)); got != want {
			t.Errorf("%v to %s: %v", c.s, c.to, got)
		}
	}
}

func TestSourcesOr(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("192.0.2.6")
	six := netip.MustParseAddr("2001:db8::5")
	if got := (Sources{V4: a}).Or(Sources{b, six}).All(); !slices.Equal(got, []netip.Addr{a, six}) {
		t.Error(got)
	}
}
