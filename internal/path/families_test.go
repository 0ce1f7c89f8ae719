package path

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// TestUsersFamilies: two relays of a family of the user's are in no path, whatever their
// positions are; relays of two families may be.
func TestUsersFamilies(t *testing.T) {
	d := ctor(t)
	count := func(c *Config) (together int) {
		for seed := range uint64(300) {
			p := choose(t, c, d, manager(t, d, guard.Filter{}), rng(seed), Spec{Dests: web})
			n := 0
			for _, h := range p.Hops {
				if slices.Contains([]string{"e1", "e2", "r1", "r3", "r5"}, h.Relay.Nickname()) {
					n++
				}
			}
			if n > 1 {
				together++
			}
		}
		return together
	}
	if n := count(&Config{SameSubnet: true}); n < 30 {
		t.Fatalf("without a family, two of them are in %d paths", n)
	}
	one := []Set{set(t, "r8"), set(t, "e1", "e2", "r1", byName(t, d, "r3").RSA().String(), "r5")}
	if n := count(&Config{SameSubnet: true, SameFamily: true, Families: one}); n != 0 {
		t.Errorf("two relays of a family are in %d paths", n)
	}
	if n := count(&Config{SameSubnet: true, Families: []Set{set(t, "e1", "e2"), set(t, "r1", "r3", "r5")}}); n == 0 {
		t.Error("relays of two families are in no path")
	}
}

// TestUsersFamiliesUnlisted: the rule holds for a bridge, and for a last relay that the directory does
// not have.
func TestUsersFamiliesUnlisted(t *testing.T) {
	d := ctor(t)
	b := guard.Candidate{ID: ident.RelayID{RSA: ident.RSAID{9, 9}}, Bridge: true, Complete: true, Ntor: ident.X25519Key{7},
		Addrs: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.9:443")}}
	m := manager(t, d, guard.Filter{}, b)
	last := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{8}}, Addrs: []netip.AddrPort{netip.MustParseAddrPort("198.51.100.8:443")}, Ntor: ident.X25519Key{1}}
	c := &Config{SameSubnet: true}
	for seed := range uint64(50) {
		choose(t, c, d, m, rng(seed), Spec{Dests: web})
		choose(t, c, d, m, rng(seed), Spec{Last: &last})
	}
	c.Families = []Set{set(t, "192.0.2.0/24", "e1", "e2")}
	refuses(t, c, d, m, Spec{Dests: web})
	choose(t, c, d, m, rng(1), Spec{Last: &last})
	c.Families = []Set{set(t, "192.0.2.0/24", "198.51.100.8")}
	refuses(t, c, d, m, Spec{Last: &last})
	c.Families = []Set{set(t, "198.51.100.8", "r1", "r2", "r3", "r4", "r5", "r6", "r7")}
	for seed := range uint64(50) {
		if p := choose(t, c, d, m, rng(seed), Spec{Last: &last}); c.Families[0].Has(p.Hops[1].Relay) {
			t.Fatalf("path %s", names(p))
		}
	}
}
