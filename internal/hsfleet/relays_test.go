package hsfleet

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
)

// TestRelays: the relays of the other hosts that live, of all or of some.
func TestRelays(t *testing.T) {
	now := time.Now()
	at := func(ids ...byte) (out []netdoc.HSIntroPoint) {
		for _, id := range ids {
			r := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{id}, Ed: ident.Ed25519ID{id}}, Addrs: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:443")}}
			out = append(out, netdoc.HSIntroPoint{Specs: r.Specs()})
		}
		return append(out, netdoc.HSIntroPoint{}) // one of no relay
	}
	v := View{Others: []Entry{
		{Host: HostID{1}, At: now, Points: at(1, 2)},
		{Host: HostID{2}, At: now.Add(-EntryLife), Points: at(3)},
		{Host: HostID{3}, At: now, Points: at(2, 4)},
	}}
	if got := v.Relays(now); !slices.Equal(got, []ident.RSAID{{1}, {2}, {2}, {4}}) {
		t.Error(got)
	}
	if got := v.RelaysOf(now, func(h HostID) bool { return h == HostID{3} }); !slices.Equal(got, []ident.RSAID{{2}, {4}}) {
		t.Error(got)
	}
}
