package client

import (
	"net/netip"
	"testing"

	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/path"
)

// TestReachedAt: requests to a directory name the address by which C tor connects to it, IPv4 unless a rule refuses that.
func TestReachedAt(t *testing.T) {
	four, six := netip.MustParseAddrPort("192.0.2.1:9001"), netip.MustParseAddrPort("[2001:db8::1]:9001")
	for rules, want := range map[string]netip.AddrPort{"": four, "reject *4:*,accept *:*": six, "reject *6:*,accept *:*": four, "10.0.0.0/8:*": four} {
		var p path.Config
		if rules != "" {
			var err error
			if p.Reachable, err = path.ParseReach([]string{rules}); err != nil {
				t.Fatal(err)
			}
		}
		c := new(Client)
		c.live.Store(&Live{Path: p})
		if got := c.reachedAt(linkspec.Target{Addrs: []netip.AddrPort{six, four}}); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %v", rules, got)
		}
	}
}
