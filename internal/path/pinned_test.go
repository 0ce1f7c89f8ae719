package path

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
)

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

func TestBridge(t *testing.T) {
	d := big(t)
	some := byIndex(d, netdir.FlagGuard)
	a := some.IPv4().Addr().As4()
	bridge := guard.Candidate{
		ID: ident.RelayID{RSA: ident.RSAID{9, 9}}, Bridge: true, Complete: true, Ntor: ident.X25519Key{7},
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

// TestUnlistedGuard: a guard that a newer directory does not list has no key here. The
// circuit waits until the guards have that directory, too.
func TestUnlistedGuard(t *testing.T) {
	d, old := ctor(t), big(t)
	m := manager(t, old, guard.Filter{})
	err := refuses(t, &Config{}, d, m, Spec{Dests: web}, "microdescriptor is missing")
	if !fault.Is(err, fault.Directory) {
		t.Errorf("kind %v", fault.KindOf(err))
	}
	for _, g := range m.Status(d.ValidAfter()).Guards {
		if g.OpenCircuits != 0 || g.Tries != 0 {
			t.Errorf("%+v", g)
		}
	}
}
