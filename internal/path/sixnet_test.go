package path

import (
	"net/netip"
	"testing"

	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
)

// TestIPv6Networks: a set names relays by their IPv6 addresses, too, and a relay that is not in
// the directory, such as a bridge, has neighbours by IPv6 as well as by IPv4.
func TestIPv6Networks(t *testing.T) {
	var relay netdir.Relay
	var six netip.AddrPort
	for r := range big(t).All() {
		if a, ok := r.IPv6(); ok {
			relay, six = r, a
			break
		}
	}
	if relay.IsZero() {
		t.Fatal("no relay has an IPv6 address: the test shows nothing")
	}
	for bits, want := range map[int]bool{128: true, 48: true, 32: true} {
		s := set(t, netip.PrefixFrom(six.Addr(), bits).String())
		if s.Has(relay) != want || s.has(relay.RSA(), "", relay.Target().Addrs) != want {
			t.Errorf("/%d: not %v", bits, want)
		}
	}
	if s := set(t, "3fff::/20"); s.Has(relay) {
		t.Error("another network names it")
	}
	a := six.Addr().As16()
	a[15]++
	a[7]++
	bridge := &linkspec.Target{Addrs: []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom16(a), 443)}}
	if !sameSubnet(relay, bridge) {
		t.Error("a bridge in the relay's IPv6 /32 is no neighbour")
	}
	a[3]++
	bridge.Addrs[0] = netip.AddrPortFrom(netip.AddrFrom16(a), 443)
	if sameSubnet(relay, bridge) {
		t.Error("a bridge in another IPv6 /32 is a neighbour")
	}
}
