package client

import (
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/stream"
)

// TestFamilyOfAddress: an address of the family that a request excludes reaches no exit.
// The exit would connect: what a BEGIN says about families is for names.
func TestFamilyOfAddress(t *testing.T) {
	c := isolated(t, netdir.Public(), refuse)
	for _, x := range []struct {
		host string
		f    stream.Family
		ok   bool
	}{
		{"192.0.2.1", stream.IPv4Only, true}, {"2001:db8::1", stream.IPv4Only, false}, {"::ffff:192.0.2.1", stream.IPv4Only, true},
		{"192.0.2.1", stream.IPv6Only, false}, {"2001:db8::1", stream.IPv6Only, true}, {"::ffff:192.0.2.1", stream.IPv6Only, false},
		{"192.0.2.1", stream.IPv6First, true}, {"2001:db8::1", stream.AnyFamily, true}, {"example.com", stream.IPv6Only, true},
	} {
		_, err := c.dest(Request{Host: x.host, Port: 80, Family: x.f})
		if x.ok && err != nil || !x.ok && !fault.Is(err, fault.Config) {
			t.Errorf("%s, family %d: %v", x.host, x.f, err)
		}
	}
}
