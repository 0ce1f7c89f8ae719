package netdir

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../netdoc/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ctor loads the network of C tor 0.4.9.11 that testdata's README describes.
func ctor(t testing.TB) *Directory {
	t.Helper()
	var l Loader
	d, c, err := l.Consensus(read(t, "ctor/consensus-microdesc"), nil)
	if err != nil || len(c.Signatures) != 3 {
		t.Fatal(err)
	}
	if u := d.Usability(); u.Have != 0 || u.Path != 0 || d.Enough(false) {
		t.Errorf("without microdescriptors: %+v", u)
	}
	kept := 0
	d, n, err := l.Microdescs(d, read(t, "ctor/microdescs"), func([]byte) { kept++ })
	if err != nil || n != 10 || kept != 10 {
		t.Fatalf("%d microdescriptors, %d kept: %v", n, kept, err)
	}
	return d
}

// Microdescriptors without TAP keys make a directory as others do.
// TestEnough: the consensus says, within bounds, how much of the paths is enough.
func TestEnough(t *testing.T) {
	const n = 1000
	for _, x := range []struct{ pct, want int }{{0, 250}, {24, 250}, {25, 250}, {60, 600}, {95, 950}, {96, 950}, {-1, 600}} {
		d := &Directory{relays: make([]relay, n), mds: make([]*netdoc.Microdesc, n)}
		if x.pct >= 0 {
			d.pre.Params = netdoc.Params{{Name: "min_paths_for_circs_pct", Value: int32(x.pct)}}
		}
		for i := range d.relays {
			d.relays[i].flags = FlagRunning | FlagValid
		}
		for have := range n {
			if got := d.Enough(true); got != (have >= x.want) {
				t.Fatalf("%d %%: with %d of %d it is enough: %v", x.pct, have, n, got)
			}
			d.mds[have] = &netdoc.Microdesc{}
		}
	}
}

func TestDirectoryWithoutTAPKeys(t *testing.T) {
	var l Loader
	d, _, err := l.Consensus(read(t, "ctor15/consensus-microdesc"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d, _, err = l.Microdescs(d, read(t, "ctor15/microdescs"), nil); err != nil {
		t.Fatal(err)
	}
	if u := d.Usability(); d.Len() != 8 || len(d.MissingMicrodescs()) != 0 || u.Have != u.Want || u.Path != 1 {
		t.Errorf("%d relays, %d without a microdescriptor, %+v", d.Len(), len(d.MissingMicrodescs()), u)
	}
	for r := range d.All() {
		if md := r.Target(); md.Ntor.IsZero() || md.Ed.IsZero() {
			t.Errorf("%s: %+v", r.Nickname(), md)
		}
	}
}

func byName(t testing.TB, d *Directory, name string) Relay {
	t.Helper()
	for r := range d.All() {
		if r.Nickname() == name {
			return r
		}
	}
	t.Fatalf("no %s", name)
	return Relay{}
}

func TestDirectory(t *testing.T) {
	d := ctor(t)
	if d.Len() != 10 || len(d.MissingMicrodescs()) != 0 {
		t.Fatal(d.Len())
	}
	for r := range d.All() {
		if got, ok := d.Lookup(r.RSA()); !ok || got != r {
			t.Errorf("Lookup(%s)", r.Nickname())
		}
		if got, ok := d.LookupEd(r.ID().Ed); !ok || got != r {
			t.Errorf("LookupEd(%s)", r.Nickname())
		}
		tg := r.Target()
		if tg.Ntor.IsZero() || tg.Ed.IsZero() || tg.RSA != r.RSA() || !tg.Proto.Has(protover.Relay, 6) || tg.Addrs[0] != r.IPv4() {
			t.Errorf("%+v", tg)
		}
	}
	if _, ok := d.Lookup(ident.RSAID{1}); ok {
		t.Error("a stranger was found")
	}
	for name, change := range map[string]func(*linkspec.Target){
		"":                           func(*linkspec.Target) {},
		"no address":                 func(t *linkspec.Target) { t.Addrs = nil },
		"another RSA identity":       func(t *linkspec.Target) { t.RSA[0]++ },
		"another Ed25519 identity":   func(t *linkspec.Target) { t.Ed[0]++ },
		"no Ed25519 identity":        func(t *linkspec.Target) { t.Ed = ident.Ed25519ID{} },
		"an address that is unknown": func(t *linkspec.Target) { t.Addrs = append(t.Addrs, netip.MustParseAddrPort("[2001:db8::1]:1")) },
		"another port":               func(t *linkspec.Target) { t.Addrs[0] = netip.AddrPortFrom(t.Addrs[0].Addr(), 1) },
	} {
		tg := d.Relay(0).Target()
		change(&tg)
		if got := d.Knows(&tg); got != (name == "" || name == "no address") {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, ok := d.LookupEd(ident.Ed25519ID{0xff, 0xff}); ok {
		t.Error("a stranger was found")
	}
	e2 := byName(t, d, "e2")
	if !e2.Policy4().AllowsPort(443) || e2.Policy4().AllowsPort(25) || !e2.Policy6().AllowsPort(80) || !e2.Has(FlagExit|FlagGuard) || e2.Has(FlagAuthority) {
		t.Error("e2")
	}
	if d.Param("cc_alg", 0, 0, 5) != 2 || d.Param("nothing", 7, 0, 9) != 7 {
		t.Error("parameters")
	}
}

func TestFamilies(t *testing.T) {
	d := ctor(t)
	r := func(n string) Relay { return byName(t, d, n) }
	if !d.SameFamily(r("r1"), r("r2")) || !d.SameFamily(r("r3"), r("r4")) {
		t.Error("families are not seen")
	}
	if d.SameFamily(r("r1"), r("r3")) || d.SameFamily(r("r5"), r("e1")) {
		t.Error("strangers are family")
	}
	if d.SameSubnet(r("r1"), r("r2")) || !d.SameSubnet(r("r1"), r("r1")) {
		t.Error("subnets")
	}
}

func TestLifetime(t *testing.T) {
	d := ctor(t)
	for _, c := range []struct {
		at               time.Time
		live, reasonably bool
	}{
		{d.ValidAfter().Add(-25 * time.Hour), false, false},
		{d.ValidAfter().Add(-time.Hour), false, true},
		{d.ValidAfter(), true, true},
		{d.ValidUntil(), true, true},
		{d.ValidUntil().Add(time.Second), false, true},
		{d.ValidUntil().Add(24*time.Hour + time.Second), false, false},
	} {
		if d.Live(c.at) != c.live || d.ReasonablyLive(c.at) != c.reasonably {
			t.Errorf("%v: %v %v", c.at, d.Live(c.at), d.ReasonablyLive(c.at))
		}
	}
}

func TestUsability(t *testing.T) {
	d := ctor(t)
	u := d.Usability()
	if u.Path != 1 || !u.HasExits || u.Have != 10 || u.Want != 10 || !d.Enough(false) {
		t.Errorf("%+v", u)
	}
	// A new consensus of the same relays has their microdescriptors at once.
	var l Loader
	next, _, err := l.Consensus(read(t, "ctor/consensus-microdesc-old"), d)
	if err != nil || next.Usability().Have == 0 {
		t.Errorf("%+v %v", next.Usability(), err)
	}
}

// TestEnoughByBridge: a client that has a bridge need not know the guards' microdescriptors, but those of the other hops.
func TestEnoughByBridge(t *testing.T) {
	d := ctor(t)
	d.mds[0], d.mds[1] = nil, nil
	need := 0.6
	if u := d.Usability(); u.Path >= need || u.Middle*u.Exit < need || d.Enough(false) || !d.Enough(true) {
		t.Errorf("%+v: enough %v, by a bridge %v", u, d.Enough(false), d.Enough(true))
	}
	for i := range d.mds[1:] {
		d.mds[i] = nil
	}
	if u := d.Usability(); u.Middle*u.Exit >= need || d.Enough(true) {
		t.Errorf("enough by a bridge: %+v", u)
	}
}

func TestPickFollowsWeights(t *testing.T) {
	d := ctor(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for pos := range positions {
		for _, mode := range []string{"all", "exits", "scan"} {
			ok := func(r Relay) bool { return mode != "exits" || r.Has(FlagExit) }
			var sum float64
			for r := range d.All() {
				if ok(r) {
					sum += float64(d.Weight(r, pos))
				}
			}
			const n = 20000
			count := map[Relay]int{}
			for range n {
				r, found := d.Pick(rng, pos, ok)
				if mode == "scan" {
					r, found = d.pickScan(rng, pos, ok)
				}
				if !found || !ok(r) {
					t.Fatal("no relay")
				}
				count[r]++
			}
			if sum == 0 {
				continue // covered by TestPickWithoutWeights
			}
			for r := range d.All() {
				want := 0.0
				if ok(r) {
					want = float64(d.Weight(r, pos)) / sum
				}
				if got := float64(count[r]) / n; math.Abs(got-want) > 0.02 {
					t.Errorf("position %d, %s, %s: %.3f of the choices, not %.3f", pos, mode, r.Nickname(), got, want)
				}
			}
		}
	}
}

func TestPickWithoutWeights(t *testing.T) {
	d := ctor(t)
	rng := rand.New(rand.NewPCG(3, 4))
	if w := d.Weight(byName(t, d, "e1"), PosGuard); w != 0 {
		t.Fatalf("e1 weighs %d as a guard: the test needs Wgd=0", w)
	}
	count := map[string]int{}
	for range 4000 {
		r, ok := d.Pick(rng, PosGuard, func(r Relay) bool { return r.Has(FlagExit) })
		if !ok {
			t.Fatal("none")
		}
		count[r.Nickname()]++
	}
	if math.Abs(float64(count["e1"])-2000) > 200 || count["e1"]+count["e2"] != 4000 {
		t.Error(count)
	}
	if _, ok := d.Pick(rng, PosGuard, func(Relay) bool { return false }); ok {
		t.Error("a relay that nobody accepts")
	}
	empty := &Directory{}
	if _, ok := empty.Pick(rng, PosGuard, func(Relay) bool { return true }); ok {
		t.Error("a relay of an empty directory")
	}
}

func TestPickAllocates(t *testing.T) {
	d := ctor(t)
	rng := rand.New(rand.NewPCG(1, 2))
	ok := func(r Relay) bool { return r.Has(FlagRunning) }
	if n := testing.AllocsPerRun(100, func() { d.Pick(rng, PosMiddle, ok) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
