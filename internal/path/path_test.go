package path

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
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
	var cached []ident.RSAID // by those that are asked first
	for range 100 {
		if id := choose(t, &Config{}, d, m, rng(1), Spec{Hops: 1}).IDs()[0]; !slices.Contains(cached, id) {
			cached = append(cached, id)
		}
	}
	if p := choose(t, &Config{}, d, m, rng(1), Spec{Hops: 1, Outdated: cached}); slices.Contains(cached, p.IDs()[0]) {
		t.Fatal("a cache that lacks what is wanted was chosen")
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
	all := Spec{Dests: web, NeedAll: []Capability{CGO, CongestionControl}, NeedExit: []Capability{Conflux}}
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
// present directory lacks.
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
	if _, ok := find(bare, id); !ok { // which lacks the identities of relays
		t.Error("r1 is not found where its Ed25519 identity is unknown")
	}
	if _, ok := find(full, ident.RelayID{RSA: id.RSA}); !ok {
		t.Error("r1 is not found by its RSA identity")
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
