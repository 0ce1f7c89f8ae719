package guard

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// suspectedHalf is a network in which every other relay has the flag MiddleOnly, and keeps its
// other flags.
func suspectedHalf(t *testing.T) *netdir.Directory {
	t.Helper()
	n, err := dirgen.New(dirgen.Options{Relays: 120})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Publish(epoch); err != nil {
		t.Fatal(err)
	}
	var doc strings.Builder
	i := 0
	for line := range strings.Lines(string(n.Consensus)) {
		if strings.HasPrefix(line, "s ") {
			if i++; i%2 == 0 {
				line = strings.Replace(line, " Running", " MiddleOnly Running", 1)
			}
		}
		doc.WriteString(line)
	}
	whole, err := n.Directory() // which has the microdescriptors
	if err != nil {
		t.Fatal(err)
	}
	var l netdir.Loader
	d, _, err := l.Consensus([]byte(doc.String()), whole)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestMiddleOnlyIsNoGuard: a relay with the flag MiddleOnly is no guard, whatever other flags it
// has, and a guard that gets the flag counts as one that has left.
func TestMiddleOnlyIsNoGuard(t *testing.T) {
	d := suspectedHalf(t)
	v := FromNetdir(d)
	listed, held := 0, 0
	for c := range v.Guards() {
		listed++
		if r, _ := d.Lookup(c.ID.RSA); r.Has(netdir.FlagMiddleOnly) {
			t.Fatal("it is listed")
		}
	}
	for r := range d.All() {
		if r.Has(flags | netdir.FlagMiddleOnly) {
			held++
			if _, ok := v.Guard(r.RSA()); ok {
				t.Fatal("a guard that got the flag is still listed")
			}
		}
	}
	if listed == 0 || held == 0 {
		t.Fatalf("%d guards, %d of MiddleOnly: the test shows nothing", listed, held)
	}
}

// TestMiddleOnlyIsNoVanguard: nor is it a vanguard, and one that gets the flag is replaced.
func TestMiddleOnlyIsNoVanguard(t *testing.T) {
	d := suspectedHalf(t)
	rng := rand.New(rand.NewPCG(1, 2))
	v := openVanguards(t, VanguardsFull, new(MemStore), d.ValidAfter())
	var bad netdir.Relay
	for r := range d.All() {
		if r.Has(netdir.FlagMiddleOnly | netdir.FlagFast | netdir.FlagStable) {
			bad = r
		}
	}
	if bad.IsZero() {
		t.Fatal("no relay is MiddleOnly, Fast and Stable: the test shows nothing")
	}
	v.layers[0] = []vanguard{{bad.RSA(), d.ValidAfter().Add(day)}}
	for range 20 {
		for _, layer := range v.Layers(d, any1, rng, d.ValidAfter()) {
			if len(layer) == 0 {
				t.Fatal("no vanguard")
			}
			for _, id := range layer {
				if r, _ := d.Lookup(id); r.Has(netdir.FlagMiddleOnly) {
					t.Fatal("it is a vanguard")
				}
			}
		}
		clear(v.layers[1])
		v.layers[1] = nil
	}
}
