package circuit

import (
	"net/netip"
	"testing"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// TestOneAddressSent: a client that looks like C tor's names one address of the next relay, whatever a stranger's link specifiers
// have; others send those unchanged.
func TestOneAddressSent(t *testing.T) {
	target := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{1}, Ed: ident.Ed25519ID{2}},
		Addrs: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("[2001:db8::1]:1")}}
	odd := append([]linkspec.Spec{{Type: 77}}, target.Specs()...)
	types := func(o HopOptions) (out []uint8) {
		for _, s := range (&clientHandshake{target: target, opts: o}).specs() {
			out = append(out, s.Type)
		}
		return out
	}
	for _, c := range []struct {
		o    HopOptions
		want string
	}{
		{HopOptions{}, "\x00\x02\x03\x01"},
		{HopOptions{Specs: odd}, "\x4d\x00\x02\x03\x01"},
		{HopOptions{OneAddress: true}, "\x00\x02\x03"},
		{HopOptions{OneAddress: true, Specs: odd}, "\x00\x02\x03"},
	} {
		if got := types(c.o); string(got) != c.want {
			t.Errorf("%+v: %v", c.o, got)
		}
	}
}
