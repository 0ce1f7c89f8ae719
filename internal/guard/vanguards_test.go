package guard

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

func any1(netdir.Relay) bool { return true }

func vanguardNet(t *testing.T) *netdir.Directory {
	t.Helper()
	made, err := dirgen.New(dirgen.Options{Relays: 80})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func openVanguards(t *testing.T, mode VanguardMode, store Store, now time.Time) *Vanguards {
	t.Helper()
	v, err := NewVanguards(mode, store, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func same(a, b [][]ident.RSAID) bool { return slices.EqualFunc(a, b, slices.Equal[[]ident.RSAID]) }

// TestVanguards: they are few, stable and fast, stay for their time, and are replaced
// when it is over, when they leave the network, and when the user excludes them.
func TestVanguards(t *testing.T) {
	d := vanguardNet(t)
	rng := rand.New(rand.NewPCG(1, 2))
	now := d.ValidAfter()
	for mode, c := range map[VanguardMode]struct {
		numbers           []int
		shortest, longest []time.Duration
	}{
		VanguardsAuto: {[]int{4}, []time.Duration{day}, []time.Duration{12 * day}},
		VanguardsLite: {[]int{4}, []time.Duration{day}, []time.Duration{12 * day}},
		VanguardsFull: {[]int{4, 8}, []time.Duration{day, time.Hour}, []time.Duration{12 * day, 2 * day}},
	} {
		v := openVanguards(t, mode, new(MemStore), now)
		first := v.Layers(d, any1, rng, now)
		if len(first) != len(c.numbers) {
			t.Fatal(mode, first)
		}
		for i, layer := range first {
			sorted := slices.SortedFunc(slices.Values(layer), func(a, b ident.RSAID) int { return slices.Compare(a[:], b[:]) })
			if len(layer) != c.numbers[i] || len(slices.Compact(sorted)) != c.numbers[i] {
				t.Errorf("mode %d, layer %d: %v", mode, i, layer)
			}
			for _, id := range layer {
				if r, ok := d.Lookup(id); !ok || !r.Has(netdir.FlagStable|netdir.FlagFast) || !r.HasMicrodesc() {
					t.Errorf("mode %d, layer %d: a vanguard is not stable and fast", mode, i)
				}
			}
			for _, g := range v.layers[i] {
				if life := g.expires.Sub(now); life < c.shortest[i]-time.Second || life >= c.longest[i] {
					t.Errorf("mode %d, layer %d: a life of %v", mode, i, life)
				}
			}
		}
		if again := v.Layers(d, any1, rng, now.Add(time.Hour-2*time.Second)); !same(again, first) {
			t.Errorf("mode %d: they changed within an hour", mode)
		}
		gone := first[0][0]
		but := func(r netdir.Relay) bool { return r.RSA() != gone }
		if got := v.Layers(d, but, rng, now)[0]; len(got) != 4 || slices.Contains(got, gone) || !slices.Equal(got[:3], first[0][1:]) {
			t.Errorf("mode %d: an excluded one was not replaced, or others were", mode)
		}
		later := now.Add(24 * day)
		v.Layers(d, any1, rng, later)
		for i := range v.layers {
			for _, g := range v.layers[i] {
				if !g.expires.After(later) {
					t.Errorf("mode %d: one stays after its time", mode)
				}
			}
			v.layers[i][0].id = ident.RSAID{1}
		}
		for i, layer := range v.Layers(d, any1, rng, later) {
			if len(layer) != c.numbers[i] || slices.Contains(layer, ident.RSAID{1}) {
				t.Errorf("mode %d: one that left the network was not replaced", mode)
			}
		}
	}
	if got := openVanguards(t, VanguardsOff, new(MemStore), now).Layers(d, any1, rng, now); got != nil {
		t.Error("off:", got)
	}
}

// TestVanguardsSaved: full vanguards survive a restart; the others do not.
func TestVanguardsSaved(t *testing.T) {
	d := vanguardNet(t)
	rng := rand.New(rand.NewPCG(3, 4))
	now := d.ValidAfter()
	file := filepath.Join(t.TempDir(), "vanguards.json")
	v := openVanguards(t, VanguardsFull, FileStore(file), now)
	first := v.Layers(d, any1, rng, now)
	select {
	case <-v.Changed():
	default:
		t.Error("nothing to save")
	}
	if err := v.Save(); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(file); err != nil || fi.Mode().Perm() != 0o600 {
		t.Fatal(fi, err)
	}
	v = openVanguards(t, VanguardsFull, FileStore(file), now)
	if again := v.Layers(d, any1, rng, now); !same(again, first) {
		t.Error("they changed with a restart")
	}
	if v.unsaved() != nil {
		t.Error("nothing changed, and there is something to save")
	}
	// A clock that was years ahead made them; they must not stay for years.
	v.layers[0][0].expires = now.Add(1000 * day)
	if got := v.Layers(d, any1, rng, now); slices.Contains(got[0][:3], first[0][0]) {
		t.Error("one stays for years")
	}
	lite := openVanguards(t, VanguardsLite, FileStore(file), now)
	lite.Layers(d, any1, rng, now)
	if lite.unsaved() != nil {
		t.Error("vanguards that are not full are saved")
	}
}

// TestVanguardsDamaged: a damaged file is set aside, and new ones are chosen.
func TestVanguardsDamaged(t *testing.T) {
	d := vanguardNet(t)
	rng := rand.New(rand.NewPCG(3, 4))
	now := d.ValidAfter()
	whole := openVanguards(t, VanguardsFull, new(MemStore), now)
	whole.Layers(d, any1, rng, now)
	good := string(whole.unsaved())
	for name, text := range map[string]string{
		"empty": "", "half": good[:len(good)/2], "a digit": strings.Replace(good, `"rsa": "`, `"rsa": "0`, 1),
		"version": strings.Replace(good, `"version": 1`, `"version": 2`, 1), "more": good + "{}", "unknown": strings.Replace(good, `"version"`, `"x": 1, "version"`, 1),
		"one layer":  string(encodeVanguards(whole.layers[:1])),
		"twice":      string(encodeVanguards([][]vanguard{{whole.layers[0][0], whole.layers[0][0]}, nil})),
		"no time":    string(encodeVanguards([][]vanguard{{{id: ident.RSAID{1}}}, nil})),
		"a thousand": string(encodeVanguards([][]vanguard{make([]vanguard, 1000), nil})),
	} {
		file := filepath.Join(t.TempDir(), "vanguards.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		v := openVanguards(t, VanguardsFull, FileStore(file), now)
		if b, err := os.ReadFile(file + ".corrupt"); err != nil || string(b) != text {
			t.Errorf("%s: %v", name, err)
		}
		if got := v.Layers(d, any1, rng, now); len(got[0]) != 4 || len(got[1]) != 8 {
			t.Errorf("%s: %v", name, got)
		}
		if err := v.Save(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestVanguardsOfNewIdentity: another identity has other vanguards, except full ones.
func TestVanguardsOfNewIdentity(t *testing.T) {
	d := vanguardNet(t)
	rng := rand.New(rand.NewPCG(1, 2))
	now := d.ValidAfter()
	for mode, stay := range map[VanguardMode]bool{VanguardsAuto: false, VanguardsLite: false, VanguardsFull: true, VanguardsOff: true} {
		v := openVanguards(t, mode, new(MemStore), now)
		first := v.Layers(d, any1, rng, now)
		v.NewIdentity()
		if next := v.Layers(d, any1, rng, now); same(first, next) != stay || len(next) != len(first) {
			t.Errorf("mode %v: %v, then %v", mode, first, next)
		}
	}
}

// TestLongerLives: of the two random lives of a vanguard of the mode "full" the longer counts, so that they last
// for two thirds of the range on average; in the other modes it is one, and half of the range.
func TestLongerLives(t *testing.T) {
	for mode, rows := range layerRows {
		for i, row := range rows {
			rng := rand.New(rand.NewPCG(3, uint64(i)))
			shortest, longest := time.Duration(row.shortest)*time.Second, time.Duration(row.long)*time.Second
			var sum time.Duration
			const n = 2000
			for range n {
				life := row.lifetime(shortest, longest, rng)
				if life < shortest || life >= longest {
					t.Fatal(mode, row.param, life)
				}
				sum += life - shortest
			}
			part, want := float64(sum/n)/float64(longest-shortest), 1.0/2
			if mode == VanguardsFull {
				want = 2.0 / 3
			}
			if part < want-0.05 || part > want+0.05 {
				t.Errorf("mode %v, %s: on average %.2f of the range, want %.2f", mode, row.param, part, want)
			}
		}
	}
}
