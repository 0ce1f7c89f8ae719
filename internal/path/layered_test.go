package path

import (
	"errors"
	"slices"
	"testing"

	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
)

// TestLayered: in a path with vanguards these are where they belong, families and
// subnets do not matter, no relay comes twice except the guard as the fourth hop, and
// the path can be extended to the relay that follows.
func TestLayered(t *testing.T) {
	d := ctor(t)
	c := &Config{}
	m := manager(t, d, guard.Filter{})
	id := func(name string) ident.RSAID { return byName(t, d, name).RSA() }
	second, third := []ident.RSAID{id("r1"), id("r3"), id("e1")}, []ident.RSAID{id("r2"), id("r4"), id("r1")}
	families, guards := 0, 0
	for _, layers := range [][][]ident.RSAID{{second}, {second, third}} {
		for n := 3; n <= 5; n++ {
			for seed := range uint64(200) {
				next := id("r5")
				if seed%2 == 0 {
					next = id("r4")
				}
				p := choose(t, c, d, m, rng(seed), Spec{Hops: n, Layers: layers, Next: next})
				ids := p.IDs()
				if len(ids) != n {
					t.Fatalf("path %s", names(p))
				}
				for i, layer := range layers {
					if !slices.Contains(layer, ids[i+1]) {
						t.Fatalf("layer %d of path %s", i+2, names(p))
					}
				}
				for i := range ids {
					for j := range i {
						if ids[i] == ids[j] && (j > 0 || i < 3) {
							t.Fatalf("path %s", names(p))
						}
						if j > 0 && d.SameFamily(p.Hops[i].Relay, p.Hops[j].Relay) {
							families++
						}
					}
					if i >= 3 && ids[i] == ids[0] {
						guards++
					}
				}
				if slices.Contains(ids[n-2:], next) {
					t.Fatalf("path %s before the next hop", names(p))
				}
			}
		}
	}
	if families == 0 || guards == 0 {
		t.Error("one family:", families, "guard as a later hop:", guards)
	}
}

// TestLayeredFails: other relays never take the vanguards' places.
func TestLayeredFails(t *testing.T) {
	d := ctor(t)
	m := manager(t, d, guard.Filter{})
	r1 := byName(t, d, "r1").RSA()
	for name, c := range map[string]struct {
		c    Config
		spec Spec
	}{
		"gone":     {Config{}, Spec{Layers: [][]ident.RSAID{{{1}}}}},
		"empty":    {Config{}, Spec{Layers: [][]ident.RSAID{{}}}},
		"excluded": {Config{Exclude: set(t, "r1")}, Spec{Layers: [][]ident.RSAID{{r1}}}},
		"tried":    {Config{}, Spec{Layers: [][]ident.RSAID{{r1}}, Exclude: []ident.RSAID{r1}}},
		"twice":    {Config{}, Spec{Layers: [][]ident.RSAID{{r1}, {r1}}}},
		"next":     {Config{}, Spec{Layers: [][]ident.RSAID{{r1}}, Next: r1}},
	} {
		if p, err := c.c.Choose(d, m, rng(1), &c.spec, d.ValidAfter()); !errors.Is(err, ErrNone) {
			t.Errorf("%s: %v %v", name, p, err)
		}
	}
}

// TestVanguardAllowed: the user's choice of relays holds for vanguards.
func TestVanguardAllowed(t *testing.T) {
	d := ctor(t)
	for name, c := range map[string]struct {
		c    Config
		want []string // of r1 to r3
	}{
		"all":       {Config{}, []string{"r1", "r2", "r3"}},
		"excluded":  {Config{Exclude: set(t, "r2")}, []string{"r1", "r3"}},
		"middles":   {Config{Middle: set(t, "r1", "r2"), Exclude: set(t, "r2")}, []string{"r1"}},
		"none":      {Config{Middle: set(t, "nobody")}, []string{"r1", "r2", "r3"}},
		"none else": {Config{Middle: set(t, "nobody"), Strict: true}, nil},
	} {
		ok := c.c.VanguardAllowed(d, nil)
		var got []string
		for _, n := range []string{"r1", "r2", "r3"} {
			if ok(byName(t, d, n)) {
				got = append(got, n)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
