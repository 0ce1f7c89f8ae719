package path

import (
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
)

// suspected is the network of C tor with the flag MiddleOnly for those of its relays that mark
// chooses. They keep all other flags, as if the authorities took none from them.
func suspected(t testing.TB, mark func(name string) bool) *netdir.Directory {
	t.Helper()
	var doc strings.Builder
	marked := false
	for line := range strings.Lines(string(readCtor(t, "consensus-microdesc"))) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "r" {
			marked = mark(f[1])
		} else if len(f) > 1 && f[0] == "s" && marked {
			line = strings.Replace(line, " Running", " MiddleOnly Running", 1)
		}
		doc.WriteString(line)
	}
	var l netdir.Loader
	d, _, err := l.Consensus([]byte(doc.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, _, err = l.Microdescs(d, readCtor(t, "microdescs"), nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r := range d.All() {
		if r.Has(netdir.FlagMiddleOnly) {
			n++
		}
	}
	if n == 0 || n == d.Len() {
		t.Fatalf("%d relays of %d are marked: the test shows nothing", n, d.Len())
	}
	return d
}

// TestMiddleOnlyHops: a relay that the authorities allow as a middle only is nothing else: no
// exit, no guard, also for directories, no vanguard, and not the end of a path for onion
// services, where it could be an introduction or a rendezvous point. As a middle it is used.
func TestMiddleOnlyHops(t *testing.T) {
	c := &Config{SameFamily: true, SameSubnet: true}
	last := func(d *netdir.Directory, spec Spec) netdir.Relay {
		p := choose(t, c, d, manager(t, d, guard.Filter{}), rng(1), spec)
		return p.Exit().Relay
	}
	for name, try := range map[string]func(t *testing.T){
		"exit": func(t *testing.T) {
			d := suspected(t, func(name string) bool { return name == "e1" })
			for seed := range uint64(50) {
				if p := choose(t, c, d, nil, rng(seed), Spec{Dests: web}); p.Exit().Relay.Nickname() != "e2" {
					t.Fatal(names(p))
				}
			}
		},
		"introduction point": func(t *testing.T) {
			d := suspected(t, func(name string) bool { return name != "r1" && name != "r2" && name != "r3" })
			for range 50 {
				if r := last(d, Spec{Stable: true, NeedExit: []Capability{Introduction}}); r.Has(netdir.FlagMiddleOnly) {
					t.Fatal(r.Nickname())
				}
			}
		},
		"rendezvous point": func(t *testing.T) {
			d := suspected(t, func(name string) bool { return name != "r1" && name != "r2" && name != "r3" && name != "r4" })
			var layer []ident.RSAID
			for r := range d.All() {
				layer = append(layer, r.RSA())
			}
			for seed := range uint64(100) {
				p := choose(t, c, d, nil, rng(seed), Spec{Layers: [][]ident.RSAID{layer}, NeedExit: []Capability{Rendezvous}})
				if p.Exit().Relay.Has(netdir.FlagMiddleOnly) {
					t.Fatal(names(p))
				}
			}
		},
		"vanguard": func(t *testing.T) {
			d := suspected(t, func(name string) bool { return name == "r1" })
			layer := []ident.RSAID{byName(t, d, "r1").RSA(), byName(t, d, "r2").RSA()}
			for seed := range uint64(50) {
				p, err := c.Choose(d, nil, rng(seed), &Spec{Layers: [][]ident.RSAID{layer}}, d.ValidAfter())
				if err == nil && p.Hops[1].Relay.Nickname() == "r1" {
					t.Fatal(names(p))
				}
			}
		},
		"first relay": func(t *testing.T) {
			d := suspected(t, func(name string) bool { return name != "r1" && name != "r2" && name != "r3" && name != "r4" })
			for seed := range uint64(50) {
				for _, n := range []int{1, 3} {
					if p := choose(t, c, d, nil, rng(seed), Spec{Hops: n}); p.Hops[0].Relay.Has(netdir.FlagMiddleOnly) {
						t.Fatal(names(p))
					}
				}
			}
		},
		"guard": func(t *testing.T) {
			d := suspected(t, func(name string) bool { return name != "r1" && name != "r2" && name != "r3" && name != "r4" })
			for seed := range uint64(50) {
				for _, n := range []int{1, 3} {
					if p := choose(t, c, d, manager(t, d, guard.Filter{}), rng(seed), Spec{Hops: n}); p.Hops[0].Relay.Has(netdir.FlagMiddleOnly) {
						t.Fatal(names(p))
					}
				}
			}
		},
		"middle": func(t *testing.T) {
			d := suspected(t, func(name string) bool { return name == "r5" })
			used := map[bool]bool{}
			all := []ident.RSAID{byName(t, d, "r1").RSA(), byName(t, d, "r2").RSA()}
			for seed := range uint64(200) {
				for _, layers := range [][][]ident.RSAID{nil, {all}} {
					p, err := c.Choose(d, nil, rng(seed), &Spec{Hops: 4, Layers: layers}, d.ValidAfter())
					if err == nil && slices.ContainsFunc(p.Hops, func(h Hop) bool { return h.Relay.Nickname() == "r5" }) {
						used[layers != nil] = true
					}
				}
			}
			if !used[false] || !used[true] {
				t.Errorf("r5 was a middle without vanguards: %v, after them: %v", used[false], used[true])
			}
		},
		"named by a peer": func(t *testing.T) {
			// A service names its introduction points, and a client its rendezvous point. Who
			// does that for an attack names a relay of its own, with any flags or none; clients
			// of an older version, or with an older consensus, do it in good faith.
			d := suspected(t, func(name string) bool { return name == "r5" })
			target := byName(t, d, "r5").Target()
			if r := last(d, Spec{Last: &linkspec.Target{RelayID: target.RelayID, Ntor: target.Ntor, Addrs: target.Addrs}}); r.Nickname() != "r5" {
				t.Fatal(r.Nickname())
			}
		},
	} {
		t.Run(name, try)
	}
}
