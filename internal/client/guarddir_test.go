package client

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestDirectoryByGuards: what a consensus lacks is asked of a guard at once, before anything else has seen that consensus, and
// the next consensus, too, though the one that is there is some hours out of date.
func TestDirectoryByGuards(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 60, ValidAfter: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	n := *made.Network
	n.Fallbacks = []netdir.Fallback{{RSA: ident.RSAID{3}, ORPorts: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:1")}}}
	for what, old := range map[dirclient.Purpose]time.Duration{dirclient.Microdescriptors: 0, dirclient.Consensus: 5 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(d.ValidAfter().Add(old + time.Minute)))
			c := isolated(t, &n, refuse)
			target, use, err := newCaches(c).choose(t.Context(), dirclient.Query{Purpose: what, Directory: d})
			if err != nil {
				t.Fatal(err)
			}
			if use == nil {
				t.Fatalf("%v: a fallback is asked", what)
			}
			if target.Ntor.IsZero() || !c.guards.Contains(target.RSA) {
				t.Errorf("%v: %v is no guard", what, target.RSA)
			}
			use.Cancelled(time.Now())
		})
	}
}
