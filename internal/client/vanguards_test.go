package client

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestVanguards: they are few, stable and fast, stay for days, and are replaced when
// their time is over, when they leave the network, and when the user excludes them.
func TestVanguards(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 80})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	now := d.ValidAfter()
	var v vanguards
	none := &path.Config{}
	first := v.choose(d, none, rng, now)
	if len(first) != 4 || len(slices.Compact(slices.SortedFunc(slices.Values(first), func(a, b ident.RSAID) int { return slices.Compare(a[:], b[:]) }))) != 4 {
		t.Fatal(first)
	}
	for _, id := range first {
		if r, ok := d.Lookup(id); !ok || !r.Has(netdir.FlagStable) || !r.Has(netdir.FlagFast) || !r.HasMicrodesc() {
			t.Error("a vanguard is not stable and fast")
		}
	}
	day := 24 * time.Hour
	for _, g := range v.list {
		if life := g.expires.Sub(now); life < day || life >= 12*day {
			t.Errorf("a life of %v", life)
		}
	}
	if again := v.choose(d, none, rng, now.Add(day-time.Second)); !slices.Equal(again, first) {
		t.Error("they changed within a day")
	}
	exclude, err := path.ParseSet([]string{first[0].String()})
	if err != nil {
		t.Fatal(err)
	}
	if got := v.choose(d, &path.Config{Exclude: exclude}, rng, now); len(got) != 4 || slices.Contains(got, first[0]) || !slices.Equal(got[:3], first[1:]) {
		t.Error("an excluded one was not replaced, or others were")
	}
	if got := v.choose(d, none, rng, now.Add(24*day)); len(got) != 4 {
		t.Error(len(got))
	}
	for _, g := range v.list {
		if !g.expires.After(now.Add(24 * day)) {
			t.Error("one stays after its time")
		}
	}
	v.list[0].id = ident.RSAID{1}
	if got := v.choose(d, none, rng, now.Add(24*day)); len(got) != 4 || slices.Contains(got, ident.RSAID{1}) {
		t.Error("one that left the network was not replaced")
	}
}
