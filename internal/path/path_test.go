package path

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
)

var web = []Dest{{Port: 443}}

// TestEveryPathObeys chooses many paths of all kinds and checks every rule.
func TestEveryPathObeys(t *testing.T) {
	d := big(t)
	m := manager(t, d, guard.Filter{})
	r := rng(1)
	c := &Config{}
	for i := range 3000 {
		spec := Spec{Hops: 2 + i%4}
		if i%3 > 0 {
			spec.Dests = []Dest{{Port: []uint16{80, 443, 22, 6667, 53}[i%5]}}
		}
		if i%7 == 0 {
			spec.Dests = append(spec.Dests, Dest{netip.MustParseAddr("2001:db8::1"), 443})
		}
		p, err := c.Choose(d, m, r, &spec, epoch)
		if err != nil {
			t.Fatalf("%+v: %v", spec, err)
		}
		if len(p.Hops) != spec.Hops || p.Guard == nil || p.Guard.Guard().ID != p.Hops[0].Target.RelayID {
			t.Fatalf("%d hops", len(p.Hops))
		}
		p.Guard.Succeeded(epoch)
		p.Guard.Closed(epoch, true)
		for i, h := range p.Hops {
			if !h.Relay.Has(netdir.FlagRunning|netdir.FlagValid|netdir.FlagFast) || h.Target.Ntor.IsZero() {
				t.Fatalf("hop %d: %v", i, h.Relay.Flags())
			}
			if spec.stable() && !h.Relay.Has(netdir.FlagStable) {
				t.Fatal("a long-lived port on a relay that is not Stable")
			}
			for _, o := range p.Hops[:i] {
				if h.Target.RSA == o.Target.RSA || d.SameFamily(h.Relay, o.Relay) || d.SameSubnet(h.Relay, o.Relay) {
					t.Fatal("the same relay, family or subnet twice in a path")
				}
			}
		}
		if !Allows(p.Exit().Relay, spec.Dests...) || len(spec.Dests) > 0 && p.Exit().Relay.Has(netdir.FlagBadExit) {
			t.Fatal("the exit does not let it out")
		}
		if got := p.Targets(); len(got) != len(p.Hops) || got[1].RelayID != p.Hops[1].Target.RelayID || p.IDs()[0] != p.Hops[0].Target.RSA {
			t.Fatal("targets")
		}
	}
}

func TestDeterministic(t *testing.T) {
	d := big(t)
	for seed := range uint64(20) {
		a := choose(t, &Config{}, d, nil, rng(seed), Spec{Dests: web})
		b := choose(t, &Config{}, d, nil, rng(seed), Spec{Dests: web})
		if !reflect.DeepEqual(a.IDs(), b.IDs()) {
			t.Fatal("equal random numbers gave different paths")
		}
	}
}

// chi compares how often relays were chosen with their weights. It sums small
// expectations into one, and returns the statistic over its threshold for a
// chance of one in 10,000 (Wilson and Hilferty's approximation).
func chi(d *netdir.Directory, pos netdir.Position, count map[netdir.Relay]int, n int, ok func(netdir.Relay) bool) (over float64, classes int) {
	var sum float64
	for r := range d.All() {
		if ok(r) {
			sum += float64(d.Weight(r, pos))
		}
	}
	var stat, restE, restO float64
	for r := range d.All() {
		if !ok(r) {
			continue
		}
		e, o := float64(d.Weight(r, pos))/sum*float64(n), float64(count[r])
		if e < 10 {
			restE, restO = restE+e, restO+o
			continue
		}
		stat += (o - e) * (o - e) / e
		classes++
	}
	if restE > 5 {
		stat += (restO - restE) * (restO - restE) / restE
		classes++
	}
	k := float64(classes - 1)
	z := 1 - 2/(9*k) + 3.719*math.Sqrt(2/(9*k))
	return stat / (k * z * z * z), classes
}

func TestFrequenciesFollowTheWeights(t *testing.T) {
	d := big(t)
	// Nothing that a hop does to another, so that the expectation is known.
	c := &Config{SameFamily: true, SameSubnet: true}
	const n = 60000
	exits, middles := map[netdir.Relay]int{}, map[netdir.Relay]int{}
	r := rng(3)
	for range n {
		p := choose(t, c, d, nil, r, Spec{Hops: 2, Dests: web})
		exits[p.Exit().Relay]++
		p = choose(t, c, d, nil, r, Spec{Hops: 2})
		middles[p.Exit().Relay]++
	}
	fast := func(r netdir.Relay) bool { return r.Has(netdir.FlagRunning | netdir.FlagValid | netdir.FlagFast) }
	exitOK := func(r netdir.Relay) bool {
		return fast(r) && r.Flags()&(netdir.FlagBadExit|netdir.FlagMiddleOnly) == 0 && Allows(r, web...)
	}
	for what, v := range map[string]struct {
		pos   netdir.Position
		count map[netdir.Relay]int
		ok    func(netdir.Relay) bool
	}{"exit": {netdir.PosExit, exits, exitOK}, "middle": {netdir.PosMiddle, middles, fast}} {
		over, classes := chi(d, v.pos, v.count, n, v.ok)
		if classes < 50 || over > 1 {
			t.Errorf("%s: chi square is %.2f of its threshold, over %d relays", what, over, classes)
		}
		// The test can fail: uniform choice would not pass.
		flat := map[netdir.Relay]int{}
		var all []netdir.Relay
		for r := range d.All() {
			if v.ok(r) {
				all = append(all, r)
			}
		}
		for range n {
			flat[all[r.IntN(len(all))]]++
		}
		if over, _ := chi(d, v.pos, flat, n, v.ok); over < 2 {
			t.Errorf("%s: the test does not see a uniform choice (%.2f)", what, over)
		}
	}
}

func byIndex(d *netdir.Directory, f netdir.Flags) netdir.Relay {
	for r := range d.All() {
		if r.Has(f) {
			return r
		}
	}
	return netdir.Relay{}
}

func TestDirectoryCircuit(t *testing.T) {
	d := big(t)
	m := manager(t, d, guard.Filter{})
	p := choose(t, &Config{}, d, m, rng(1), Spec{Hops: 1})
	if len(p.Hops) != 1 || p.Guard == nil {
		t.Fatal("a directory circuit has one hop, a guard")
	}
	first := p.IDs()
	for range 100 {
		if p := choose(t, &Config{}, d, m, rng(1), Spec{Hops: 1, Exclude: first}); p.IDs()[0] == first[0] {
			t.Fatal("the cache that failed was chosen again")
		}
	}
	if p := choose(t, &Config{}, d, nil, rng(1), Spec{Hops: 1}); !p.Hops[0].Relay.Has(netdir.FlagV2Dir) {
		t.Fatal("not a directory cache")
	}
}

func TestImpossibleSpecs(t *testing.T) {
	d := big(t)
	for _, s := range []Spec{{Hops: -1}, {Hops: 9}, {Hops: 1, Dests: web}, {Hops: 1, Last: &linkspec.Target{}}} {
		refuses(t, &Config{}, d, nil, s, "hops")
	}
}

func TestSmallNetwork(t *testing.T) {
	d := ctor(t)
	c := &Config{SameSubnet: true}
	m := manager(t, d, guard.Filter{})
	for seed := range uint64(200) {
		p := choose(t, c, d, m, rng(seed), Spec{Dests: web})
		if e := p.Exit().Relay.Nickname(); e != "e1" && e != "e2" {
			t.Fatalf("exit %s", e)
		}
		for i, a := range p.Hops {
			for _, b := range p.Hops[:i] {
				if a.Relay == b.Relay || d.SameFamily(a.Relay, b.Relay) {
					t.Fatalf("path %s", names(p))
				}
			}
		}
	}
	p := choose(t, c, d, m, rng(1), Spec{Hops: 8})
	if len(p.Hops) != 8 {
		t.Fatal("eight hops of ten relays, some of them family")
	}
}

func TestPinnedPositions(t *testing.T) {
	d := ctor(t)
	c := &Config{SameSubnet: true, Strict: true, Entry: set(t, "r1"), Middle: set(t, "r3"), Exit: set(t, "$"+byName(t, d, "e2").RSA().String()+"~e2")}
	m := manager(t, d, c.GuardFilter(d))
	for seed := range uint64(50) {
		if p := choose(t, c, d, m, rng(seed), Spec{Dests: web}); names(p) != "r1 r3 e2" {
			t.Fatalf("path %s", names(p))
		}
	}
	// r1 and r2 are family: what is pinned cannot be had, and strict is strict.
	c.Middle = set(t, "r2")
	err := refuses(t, c, d, m, Spec{Dests: web}, "no middle relay", "1 of a family in the path", "not among the preferred")
	if !fault.Is(err, fault.Config) {
		t.Errorf("kind %v", fault.KindOf(err))
	}
	c.Strict = false
	if p := choose(t, c, d, m, rng(1), Spec{Dests: web}); p.Hops[1].Relay.Nickname() == "r2" || p.Exit().Relay.Nickname() != "e2" {
		t.Fatalf("path %s", names(p))
	}
	c.Exit = set(t, "r5")
	if p := choose(t, c, d, m, rng(1), Spec{Dests: web}); p.Exit().Relay.Nickname() == "r5" {
		t.Fatal("r5 is no exit")
	}
	c.Strict = true
	refuses(t, c, d, m, Spec{Dests: web}, "no exit for port 443", "refusing the destination")
}

func TestEntryPreference(t *testing.T) {
	d := ctor(t)
	c := &Config{Entry: set(t, "nobody")}
	if c.GuardFilter(d).Entry != nil {
		t.Fatal("a preference that nobody meets must not forbid every guard")
	}
	c.Strict = true
	if c.GuardFilter(d).Entry == nil {
		t.Fatal("strict is strict")
	}
	c = &Config{Entry: set(t, "r1"), Exclude: set(t, "r1")}
	if f := c.GuardFilter(d); f.Entry != nil || f.Exclude == nil {
		t.Fatal("the only preferred guard is excluded")
	}
}

func TestExclusions(t *testing.T) {
	d := ctor(t)
	c := &Config{SameSubnet: true, Exclude: set(t, "r1", "r3", "r5"), ExcludeExit: set(t, "e1")}
	m := manager(t, d, c.GuardFilter(d))
	for seed := range uint64(100) {
		p := choose(t, c, d, m, rng(seed), Spec{Dests: web})
		for _, h := range p.Hops {
			if c.Exclude.Has(h.Relay) {
				t.Fatalf("path %s", names(p))
			}
		}
		if p.Exit().Relay.Nickname() != "e2" {
			t.Fatalf("exit %s", p.Exit().Relay.Nickname())
		}
	}
	e2 := byName(t, d, "e2").RSA()
	refuses(t, c, d, m, Spec{Dests: web, ExcludeExit: []ident.RSAID{e2}}, "no exit for port 443", "1 tried already", "4 excluded by the configuration")
	for seed := range uint64(100) {
		p := choose(t, &Config{SameSubnet: true}, d, manager(t, d, guard.Filter{}), rng(seed), Spec{Dests: web, Exclude: []ident.RSAID{e2}})
		for _, h := range p.Hops {
			if h.Target.RSA == e2 {
				t.Fatal("a relay that is not to be used in any position was")
			}
		}
	}
}

func TestErrorsNameWhatWasWanted(t *testing.T) {
	d := ctor(t)
	c := &Config{SameSubnet: true}
	six := netip.MustParseAddr("2001:db8::1")
	if err := refuses(t, c, d, nil, Spec{Dests: []Dest{{six, 25}}}, "no exit for port 25 over IPv6:", "of 10 relays, 10 refusing the destination"); !fault.Is(err, fault.Refused) {
		t.Errorf("kind %v", fault.KindOf(err))
	}
	secret := netip.MustParseAddr("2001:db8::77")
	err := refuses(t, c, d, nil, Spec{Dests: []Dest{{secret, 25}, {Port: 0}}}, "port 25 over IPv6, name lookups")
	if strings.Contains(err.Error(), "77") {
		t.Error("the destination's address is in the error")
	}
	pq := Capability{"post-quantum handshakes", func(netdir.Relay) bool { return false }}
	refuses(t, c, d, nil, Spec{Dests: web, NeedAll: []Capability{pq}}, "port 443 with post-quantum handshakes", "lacking a capability")
	empty := &netdir.Directory{}
	refuses(t, c, empty, nil, Spec{}, "there are none")
}

func TestCapabilities(t *testing.T) {
	d := ctor(t)
	c := &Config{SameSubnet: true}
	all := Spec{Dests: web, NeedAll: []Capability{NtorV3, CGO, CongestionControl}, NeedExit: []Capability{Conflux}}
	choose(t, c, d, manager(t, d, guard.Filter{}), rng(1), all)
	only := func(name string) Capability {
		return Capability{name, func(r netdir.Relay) bool { return r.Nickname() != name }}
	}
	m := manager(t, d, guard.Filter{})
	for seed := range uint64(100) {
		p := choose(t, c, d, m, rng(seed), Spec{Dests: web, NeedAll: []Capability{only("r1")}, NeedExit: []Capability{only("e1")}})
		if p.Exit().Relay.Nickname() != "e2" || strings.Contains(names(p), "r1") {
			t.Fatalf("path %s", names(p))
		}
	}
}

// TestOneCapableHop: one hop at least has what one must have, wherever.
func TestOneCapableHop(t *testing.T) {
	d := big(t)
	rare := Capability{"a rare gift", func(r netdir.Relay) bool { return r.RSA()[0] < 8 }}
	place := map[int]int{}
	for seed := range 200 {
		for _, hops := range []int{1, 2, 3, 5} {
			p := choose(t, new(Config), d, nil, rng(uint64(seed)), Spec{Hops: hops, NeedOne: []Capability{rare}})
			at := -1
			for i, h := range p.Hops {
				if rare.Has(h.Relay) {
					at = i
				}
			}
			if at < 0 {
				t.Fatalf("%d hops: %s", hops, names(p))
			}
			if hops == 3 {
				place[at]++
			}
		}
	}
	if place[0] == 0 || place[1] < 100 || place[2] == 0 {
		t.Errorf("places %v: the last to be chosen makes up for the others", place)
	}
	refuses(t, new(Config), d, nil, Spec{NeedOne: []Capability{{"no such gift", func(netdir.Relay) bool { return false }}}}, "lacking a capability")
}

func TestGivenLastHop(t *testing.T) {
	d := ctor(t)
	c := &Config{SameSubnet: true}
	m := manager(t, d, guard.Filter{})
	for seed := range uint64(100) {
		last := byName(t, d, "r1").Target()
		p := choose(t, c, d, m, rng(seed), Spec{Last: &last, Hops: 4})
		if p.Exit().Relay.Nickname() != "r1" || strings.Contains(names(p)[:len(names(p))-2], "r1") || strings.Contains(names(p), "r2") {
			t.Fatalf("path %s", names(p))
		}
	}
	stranger := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{1, 2, 3}}, Addrs: []netip.AddrPort{netip.MustParseAddrPort("127.4.0.9:1")}}
	p := choose(t, c, d, m, rng(1), Spec{Last: &stranger})
	if !p.Exit().Relay.IsZero() || p.Exit().Target.RSA != stranger.RSA {
		t.Fatal("an introduction point that the consensus lacks")
	}
	for seed := range uint64(100) {
		if p := choose(t, &Config{}, d, nil, rng(seed), Spec{Last: &stranger}); strings.Contains(names(p), "r1") {
			t.Fatal("r1 is in the stranger's subnet")
		}
	}
}

func TestBridge(t *testing.T) {
	d := big(t)
	some := byIndex(d, netdir.FlagGuard)
	a := some.IPv4().Addr().As4()
	bridge := guard.Candidate{
		ID: ident.RelayID{RSA: ident.RSAID{9, 9}}, Complete: true,
		Addrs: []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{a[0], a[1], 200, 200}), 443)},
	}
	m := manager(t, d, guard.Filter{}, bridge)
	r := rng(1)
	for range 300 {
		p := choose(t, &Config{}, d, m, r, Spec{Dests: web})
		if p.Hops[0].Target.RSA != bridge.ID.RSA || !p.Hops[0].Relay.IsZero() {
			t.Fatal("the first hop is not the bridge")
		}
		for _, h := range p.Hops[1:] {
			if b := h.Relay.IPv4().Addr().As4(); b[0] == a[0] && b[1] == a[1] {
				t.Fatal("a relay in the bridge's subnet")
			}
		}
	}
	refuses(t, &Config{}, d, m, Spec{Exclude: []ident.RSAID{bridge.ID.RSA}}, "forbidden by the rest of the path")
}

// TestListedBridge: a relay of the consensus that is used as a bridge is reached
// where the configuration says, with the keys of its own descriptor, and not
// before that is here.
func TestListedBridge(t *testing.T) {
	d := big(t)
	bridge := guard.Candidate{
		ID: byIndex(d, netdir.FlagGuard).ID(), Bridge: true, Complete: true, Ntor: ident.X25519Key{7},
		Addrs: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.77:443")},
	}
	for range 50 {
		p := choose(t, &Config{}, d, manager(t, d, guard.Filter{}, bridge), rng(1), Spec{Dests: web})
		if first := p.Hops[0].Target; first.RSA != bridge.ID.RSA || first.Addrs[0] != bridge.Addrs[0] || first.Ntor != bridge.Ntor {
			t.Fatalf("first hop %+v", first)
		}
		for _, h := range p.Hops[1:] {
			if h.Target.RSA == bridge.ID.RSA {
				t.Fatal("the bridge twice")
			}
		}
	}
	bridge.Complete = false
	refuses(t, &Config{}, d, manager(t, d, guard.Filter{}, bridge), Spec{Dests: web}, "without microdescriptor")
}

func TestResolvePolicy(t *testing.T) {
	d := big(t)
	r := rng(1)
	for range 200 {
		p := choose(t, &Config{}, d, nil, r, Spec{Dests: []Dest{{}}})
		e := p.Exit().Relay
		if e.Policy4().RejectsAll() && e.Policy6().RejectsAll() {
			t.Fatal("a relay that lets nothing out resolves no names")
		}
	}
}

func TestAllows(t *testing.T) {
	e2 := byName(t, ctor(t), "e2")
	four, six, mapped := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("::ffff:192.0.2.1")
	for _, v := range []struct {
		d    Dest
		want bool
	}{
		{Dest{four, 443}, true}, {Dest{four, 25}, false}, {Dest{six, 80}, true}, {Dest{six, 25}, false},
		{Dest{mapped, 443}, true}, {Dest{Port: 443}, true}, {Dest{Port: 25}, false}, {Dest{}, true},
	} {
		if Allows(e2, v.d) != v.want {
			t.Errorf("%+v: %v", v.d, !v.want)
		}
	}
	if Allows(byName(t, ctor(t), "r1"), Dest{}) {
		t.Error("a middle relay lets something out")
	}
}

func TestMissingMicrodescriptors(t *testing.T) {
	var l netdir.Loader
	b := readCtor(t, "consensus-microdesc")
	d, _, err := l.Consensus(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	refuses(t, &Config{SameSubnet: true}, d, nil, Spec{Dests: web}, "10 without microdescriptor")
	m := manager(t, d, guard.Filter{})
	if p := choose(t, &Config{}, d, m, rng(1), Spec{Hops: 1}); p.Hops[0].Relay.IsZero() {
		t.Fatal("one hop needs no microdescriptor")
	}
}

// TestGuardOfANewerDirectory: the guards know a microdescriptor that the
// directory at hand lacks.
func TestGuardOfANewerDirectory(t *testing.T) {
	full := ctor(t)
	var l netdir.Loader
	bare, _, err := l.Consensus(readCtor(t, "consensus-microdesc"), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := manager(t, full, guard.Filter{})
	last := byName(t, full, "e1").Target()
	refuses(t, &Config{}, bare, m, Spec{Last: &last, Hops: 2}, "microdescriptor is missing")
	if s := m.Status(epoch); s.Guards[0].OpenCircuits+s.Guards[0].Tries != 0 {
		t.Error("the guard was not given back")
	}
	id := byName(t, full, "r1").ID()
	if _, ok := find(full, id); !ok {
		t.Error("r1 is not found")
	}
	id.Ed[0]++
	if _, ok := find(full, id); ok {
		t.Error("r1 is found by another Ed25519 identity")
	}
}

func BenchmarkChoose(b *testing.B) {
	d := big(b)
	m := manager(b, d, guard.Filter{})
	r := rand.New(rand.NewPCG(1, 1))
	c := &Config{}
	spec := &Spec{Dests: web}
	b.ReportAllocs()
	for b.Loop() {
		p, err := c.Choose(d, m, r, spec, epoch)
		if err != nil {
			b.Fatal(err)
		}
		p.Guard.Cancelled(epoch)
	}
}

func TestChooseAllocates(t *testing.T) {
	d := big(t)
	m := manager(t, d, guard.Filter{})
	r := rng(4)
	c := &Config{}
	spec := &Spec{Dests: web}
	n := testing.AllocsPerRun(200, func() {
		p, err := c.Choose(d, m, r, spec, epoch)
		if err != nil {
			t.Fatal(err)
		}
		p.Guard.Cancelled(epoch)
	})
	if n > 30 {
		t.Errorf("%v allocations per path", n)
	}
}
