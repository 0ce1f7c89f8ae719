package path

import (
	"slices"
	"testing"

	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
)

// TestNoTurn: no relay of a path must extend it to itself or back to the relay before, and
// the same is true when the path is extended to Spec.Next: any relay of the network may be
// that, also the guard and the vanguards. All lengths and layers are tried, with and without
// guards.
func TestNoTurn(t *testing.T) {
	d := ctor(t)
	m := manager(t, d, guard.Filter{})
	var all []ident.RSAID
	for r := range d.All() {
		all = append(all, r.RSA())
	}
	guardNext := 0
	for name, layers := range map[string][][]ident.RSAID{"none": nil, "lite": {all[:4]}, "full": {all[:4], all[2:]}} {
		for n := 2; n <= 5; n++ {
			for seed := range uint64(400) {
				next := all[seed%uint64(len(all))]
				var guards Guards = m
				if seed%3 == 0 {
					guards = nil
				}
				c := &Config{SameFamily: true, SameSubnet: true}
				p, err := c.Choose(d, guards, rng(seed), &Spec{Hops: n, Layers: layers, Next: next}, d.ValidAfter())
				if err != nil {
					t.Fatalf("%s, %d hops: %v", name, n, err)
				}
				if p.Guard != nil {
					p.Guard.Cancelled(d.ValidAfter())
				}
				ids := append(p.IDs(), next)
				for i := 1; i < len(ids); i++ {
					if slices.Contains(ids[max(i-2, 0):i], ids[i]) {
						t.Fatalf("%s, %d hops: hop %d of path %s, next %s, turns back", name, n, i+1, names(p), next)
					}
				}
				if ids[0] == next {
					guardNext++
				}
			}
		}
	}
	if guardNext == 0 {
		t.Error("the next hop was never the guard")
	}
}
