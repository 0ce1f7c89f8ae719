package relay

import (
	"net/netip"
	"testing"

	"github.com/chivenet/chive/internal/lab/ports"
)

// TestBothFamilies: a relay listens at one port of all IPv4 addresses and of an IPv6 address,
// as most relays with IPv6 do.
func TestBothFamilies(t *testing.T) {
	six := netip.IPv6Loopback()
	var leases ports.Leases
	defer leases.Release()
	port, err := leases.Take(netip.AddrFrom4([4]byte{127, 0, 0, 1}), six)
	if err != nil {
		t.Skip(err) // no IPv6 here
	}
	for _, six := range []netip.Addr{six, netip.IPv6Unspecified()} {
		c := bridgeConfig(t)
		c.Listen = []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), port), netip.AddrPortFrom(six, port)}
		c.Advertise = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)}
		r, err := New(c)
		if err != nil {
			t.Errorf("with %v: %v", six, err)
			continue
		}
		r.closeListeners()
	}
}
