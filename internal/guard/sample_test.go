package guard

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

func TestSampleSizes(t *testing.T) {
	for _, v := range []struct {
		listed  int
		allDown bool
		want    int
	}{
		{0, false, 0}, {3, false, 3}, {15, false, 15}, {1000, false, 20},
		// When all fail, the sample grows to min(20 %, 60), but at least 20.
		{15, true, 15}, {80, true, 20}, {200, true, 40}, {1000, true, 60},
	} {
		m := start(t, network(v.listed))
		now := epoch
		for i := 0; v.allDown && i < 200; i++ {
			now = now.Add(time.Second)
			if u, err := m.Pick(Request{}, now); err == nil {
				u.Failed(now, Unreachable)
			}
		}
		if got := len(m.cur.sample); got != v.want {
			t.Errorf("%d listed, all down %v: %d sampled, not %d", v.listed, v.allDown, got, v.want)
		}
	}
}

func TestSampleSizeParameters(t *testing.T) {
	d := network(1000)
	d.params["guard-min-filtered-sample-size"] = 5
	d.params["guard-max-sample-size"] = 7
	m := start(t, d)
	want(t, "sample", len(m.cur.sample), 5)
	for i := range 100 {
		fail(t, m, 1, epoch.Add(time.Duration(i)*time.Second))
	}
	want(t, "sample when all fail", len(m.cur.sample), 7)
	d.params["guard-max-sample-threshold-percent"] = 1 // ten
	d.params["guard-max-sample-size"] = 100
	m.Update(d, epoch)
	for i := range 100 {
		fail(t, m, 1, epoch.Add(time.Duration(i)*time.Second))
	}
	want(t, "sample at the threshold", len(m.cur.sample), 10)
}

// TestSampleFollowsWeights draws the first guard of many samples, and compares
// with the weights by chi square.
func TestSampleFollowsWeights(t *testing.T) {
	cs := []Candidate{{Weight: 10}, {Weight: 0}, {Weight: 30}, {Weight: 60}}
	rnd := rand.New(rand.NewPCG(5, 5))
	const n = 20000
	var got [4]float64
	for range n {
		got[draw(cs, rnd)]++
	}
	if got[1] != 0 {
		t.Fatal("a relay of no weight was drawn")
	}
	chi := 0.0
	for i, c := range cs {
		if e := float64(c.Weight) / 100 * n; e > 0 {
			chi += (got[i] - e) * (got[i] - e) / e
		}
	}
	if chi > 13.8 { // 2 degrees of freedom, p = 0.001
		t.Fatalf("chi square %f: %v", chi, got)
	}
	if i := draw([]Candidate{{}, {}, {}}, rnd); i < 0 || i > 2 {
		t.Fatal("no weights at all")
	}
}

func TestDatesAreRandomised(t *testing.T) {
	m := start(t, network(1000))
	seen := map[time.Time]bool{}
	for _, g := range m.cur.sample {
		if age := epoch.Sub(g.addedAt); age < 0 || age > 12*day {
			t.Fatalf("added %v ago, not within a tenth of the lifetime", age)
		}
		seen[g.addedAt] = true
	}
	if len(seen) < 15 {
		t.Fatalf("only %d different dates", len(seen))
	}
	u := pick(t, m, epoch)
	u.Succeeded(epoch)
	if age := epoch.Sub(u.g.confirmedAt); age < 0 || age > 12*day {
		t.Fatalf("confirmed %v ago", age)
	}
}

func TestUnlistedIsKeptThenRemoved(t *testing.T) {
	d := network(100)
	m := start(t, d)
	lost := m.cur.sample[4]
	at := epoch.Add(day)
	m.Update(d.without(at, lost.id), at)
	if lost.listed || lost.filtered || lost.gone {
		t.Fatal("an unlisted guard stays in the sample, unusable")
	}
	if age := at.Sub(lost.unlistedSince); age < 0 || age > 4*day {
		t.Fatalf("unlisted since %v ago", age)
	}
	since := lost.unlistedSince
	at = at.Add(day)
	m.Update(d.without(at, lost.id), at)
	want(t, "date of a guard that is still unlisted", lost.unlistedSince, since)

	at = at.Add(day)
	m.Update(d.without(at), at)
	if !lost.listed || !lost.filtered || !lost.unlistedSince.IsZero() {
		t.Fatal("a guard that is listed again must be usable again")
	}

	at = at.Add(day)
	m.Update(d.without(at, lost.id), at)
	at = at.Add(15 * day)
	m.Update(d.without(at, lost.id), at)
	if lost.gone {
		t.Fatal("removed before its time")
	}
	at = at.Add(6 * day)
	m.Update(d.without(at, lost.id), at)
	if !lost.gone || m.Contains(lost.id.RSA) {
		t.Fatal("not removed after guard-remove-unlisted-guards-after-days")
	}
	want(t, "sample, filled up", len(m.cur.sample), 20)
}

func TestStaleConsensusRemovesNothing(t *testing.T) {
	d := network(30)
	m := start(t, d)
	before := sample(m)
	later := epoch.Add(400 * day)
	m.Update(d.without(epoch, before...), later) // a consensus of long ago
	want(t, "sample", sample(m), before)
	if !m.cur.sample[0].listed {
		t.Fatal("a stale consensus was believed")
	}
}

// TestStaleConsensusAtStart: a consensus that is too old says where the known guards are, and brings no others.
func TestStaleConsensusAtStart(t *testing.T) {
	later := epoch.Add(3 * day)
	store := &MemStore{}
	m, err := New(config(1), store, epoch)
	if err != nil {
		t.Fatal(err)
	}
	m.Update(network(30), epoch)
	known := sample(m)
	if err := m.Save(); err != nil {
		t.Fatal(err)
	}
	if m, err = New(config(2), store, later); err != nil {
		t.Fatal(err)
	}
	m.Update(network(30), later)
	want(t, "sample", sample(m), known)
	u := pickFor(t, m, Request{Purpose: Directory1Hop}, later)
	if g := u.Guard(); !slices.Contains(known, g.ID) || len(g.Addrs) == 0 {
		t.Errorf("the guard is %+v", g)
	}
	u.Cancelled(later)

	// A relay that shows another Ed25519 identity is another one; one that shows none, or that was known without, may be the same.
	for _, x := range []struct {
		what     string
		id, sees func(ident.RelayID) ident.RelayID
		same     bool
	}{
		{"another identity", func(id ident.RelayID) ident.RelayID { return id }, func(id ident.RelayID) ident.RelayID { id.Ed[9]++; return id }, false},
		{"none is seen", func(id ident.RelayID) ident.RelayID { return id }, func(id ident.RelayID) ident.RelayID { id.Ed = ident.Ed25519ID{}; return id }, true},
		{"none was known", func(id ident.RelayID) ident.RelayID { id.Ed = ident.Ed25519ID{}; return id }, func(id ident.RelayID) ident.RelayID { return id }, true},
	} {
		is := relay(1)
		s := &set{sample: []*sampled{{id: x.id(is.ID)}}}
		is.ID = x.sees(is.ID)
		s.describe(&source{lookup: func(ident.RSAID) (Candidate, bool) { return is, true }})
		if got := len(s.sample[0].cur.Addrs) > 0; got != x.same {
			t.Errorf("%s: it is known where the guard is: %v", x.what, got)
		}
	}

	m, err = New(config(3), &MemStore{}, later)
	if err != nil {
		t.Fatal(err)
	}
	m.Update(network(30), later)
	if u, err := m.Pick(Request{Purpose: Directory1Hop}, later); err == nil || len(sample(m)) != 0 {
		t.Errorf("of an old consensus alone: %v, %v", u, sample(m))
	}
	m.Update(network(30).without(later), later)
	if len(sample(m)) == 0 {
		t.Error("no guards of a consensus in time")
	}
}

// TestLifetimes: a guard is kept for 48 to 60 days after its first use, whenever it was drawn,
// and for 108 to 120 days after it was drawn if it was never used.
func TestLifetimes(t *testing.T) {
	d := network(1000)
	m := start(t, d)
	update := func(days int) time.Time {
		at := epoch.Add(time.Duration(days) * day)
		m.Update(d.without(at), at)
		return at
	}
	u := pick(t, m, epoch)
	u.Succeeded(epoch)
	early, late, other := u.g, m.cur.sample[11], m.cur.sample[10]
	if age := epoch.Sub(early.confirmedAt); age < 0 || age > 12*day {
		t.Fatalf("the date of the first use is %v old", age)
	}
	update(47)
	if early.gone {
		t.Fatal("removed before 48 days of use")
	}
	at := update(61)
	if !early.gone || slices.Contains(m.cur.confirmed, early) || slices.Contains(m.cur.primary, early) {
		t.Fatal("kept for more than 60 days of use, or it stays in a list")
	}
	if !m.cur.confirm(late, &m.p, m.cfg.Rand, at) || other.gone || late.gone {
		t.Fatal("an unused guard was removed too early")
	}
	at = update(107)
	if other.gone || late.gone {
		t.Fatal("removed before 108 days without use, or before 48 days of use")
	}
	update(121)
	if !other.gone || !late.gone {
		t.Fatal("kept for more than 120 days without use, or for more than 60 days of use")
	}
	want(t, "a circuit that outlives its guard", u.Decision(), UseNow)
	u2 := &Use{m: m, set: m.cur, g: late, decided: make(chan struct{})}
	want(t, "a circuit that completes after its guard's removal", u2.Succeeded(at), Discard)
}

func TestAnotherEdIdentityIsAnotherRelay(t *testing.T) {
	d := network(30)
	m := start(t, d)
	g := m.cur.sample[0]
	e := d.without(epoch.Add(time.Hour))
	for i := range e.relays {
		if e.relays[i].ID.RSA == g.id.RSA {
			e.relays[i].ID.Ed[31] = 99
		}
	}
	m.Update(e, e.at)
	if g.listed {
		t.Fatal("taken for the same relay")
	}
}

func TestEdIdentityIsLearned(t *testing.T) {
	d := network(30)
	bare := d.without(epoch)
	for i := range bare.relays {
		bare.relays[i].ID.Ed = ident.Ed25519ID{}
		bare.relays[i].Complete = false
	}
	m := start(t, bare)
	g := m.cur.sample[0]
	if !g.id.Ed.IsZero() {
		t.Fatal("how does it know?")
	}
	m.Update(d, epoch)
	if g.id.Ed.IsZero() || g.cur.ID != g.id {
		t.Fatal("the identity in the microdescriptor was not taken over")
	}
}

func TestFilterDoesNotChangeTheSample(t *testing.T) {
	d := network(1000)
	m := start(t, d)
	before := sample(m)
	bad := primaries(m)[0]
	m.SetFilter(Filter{Exclude: func(c Candidate) bool { return c.ID == bad }}, epoch)
	for _, id := range primaries(m) {
		if id == bad {
			t.Fatal("an excluded guard is primary")
		}
	}
	if got := sample(m); !slices.Equal(got[:len(before)], before) || len(got) != len(before)+1 {
		t.Fatal("the filter changed who was sampled before, or one was not added in its place")
	}
	m.SetFilter(Filter{}, epoch)
	if !slices.Contains(sample(m), bad) {
		t.Fatal("the excluded guard was forgotten")
	}
}

func TestReachableAddresses(t *testing.T) {
	d := network(100)
	for i := range d.relays[:50] {
		d.relays[i].Addrs[0] = netip.AddrPortFrom(d.relays[i].Addrs[0].Addr(), 443)
	}
	m := start(t, d)
	m.SetFilter(Filter{Reachable: func(a netip.AddrPort) bool { return a.Port() == 443 }}, epoch)
	for _, id := range primaries(m) {
		if c, _ := d.Guard(id.RSA); c.Addrs[0].Port() != 443 {
			t.Fatal("a guard that cannot be reached is primary")
		}
	}
	m.SetFilter(Filter{Reachable: func(netip.AddrPort) bool { return false }}, epoch)
	_, err := m.Pick(Request{}, epoch)
	if !fault.Is(err, fault.Config) {
		t.Fatalf("nothing is reachable by configuration: %v", err)
	}
}

func TestRestrictedSetAndHysteresis(t *testing.T) {
	d := network(1000)
	m := start(t, d)
	allow := func(n int) Filter {
		return Filter{Exclude: func(c Candidate) bool {
			i := slices.IndexFunc(d.relays, func(r Candidate) bool { return r.ID == c.ID })
			return i >= n
		}}
	}
	for _, v := range []struct {
		allowed int
		set     string
	}{
		{1000, setDefault}, {200, setDefault}, {191, setDefault}, // above 19 %: stays
		{189, setRestricted}, {205, setRestricted}, // under 21 %: stays
		{211, setDefault}, {5, setRestricted}, {0, setRestricted},
	} {
		m.SetFilter(allow(v.allowed), epoch)
		if m.cur.name != v.set {
			t.Fatalf("%d of 1000 allowed: set %q, not %q", v.allowed, m.cur.name, v.set)
		}
	}
	m.SetFilter(allow(100), epoch)
	u := pick(t, m, epoch)
	if i := slices.IndexFunc(d.relays, func(c Candidate) bool { return c.ID == u.Guard().ID }); i >= 100 {
		t.Fatal("an excluded guard was picked")
	}
	if len(m.sets) != 2 {
		t.Fatalf("%d instances of the state", len(m.sets))
	}
}

func TestEntryNodes(t *testing.T) {
	d := network(100)
	m := start(t, d)
	only := d.relays[77].ID
	m.SetFilter(Filter{Entry: func(c Candidate) bool { return c.ID == only }}, epoch)
	want(t, "set", m.cur.name, setRestricted)
	u := pick(t, m, epoch)
	want(t, "guard", u.Guard().ID, only)
	want(t, "restricted sample", len(m.cur.sample), 1)
	u.Failed(epoch, Unreachable)
	want(t, "guard when it is down", pick(t, m, epoch).Guard().ID, only)
}

func TestBridges(t *testing.T) {
	cfg := config(1)
	cfg.Bridges = []Candidate{relay(5001), relay(5002)}
	m, err := New(cfg, &MemStore{}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "sample", len(m.cur.sample), 2)
	u := pick(t, m, epoch) // no consensus is needed
	if id := u.Guard().ID; id != relay(5001).ID && id != relay(5002).ID {
		t.Fatal("not a bridge")
	}
	m.Update(network(100), epoch)
	want(t, "sample with a consensus", len(m.cur.sample), 2)
	m.SetBridges([]Candidate{relay(5002), relay(5003)}, epoch)
	if m.cur.find(relay(5001).ID.RSA).filtered || !m.cur.find(relay(5003).ID.RSA).filtered {
		t.Fatal("the list of bridges was not followed")
	}
	m.SetBridges(nil, epoch)
	want(t, "set", m.cur.name, setDefault)
	if _, ok := network(100).Guard(pick(t, m, epoch).Guard().ID.RSA); !ok {
		t.Fatal("a bridge among the consensus's guards")
	}
}

// TestBridgesOnly: a client that is told to use bridges never uses another
// guard, not even while no bridge is known.
func TestBridgesOnly(t *testing.T) {
	cfg := config(1)
	cfg.UseBridges = true
	m, err := New(cfg, &MemStore{}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	m.Update(network(100), epoch)
	if u, err := m.Pick(Request{}, epoch); err == nil {
		t.Fatalf("picked %v", u.Guard())
	}
	m.SetBridges([]Candidate{relay(5001)}, epoch)
	want(t, "guard", pick(t, m, epoch).Guard().ID, relay(5001).ID)
	m.SetBridges(nil, epoch)
	if u, err := m.Pick(Request{}, epoch); err == nil {
		t.Fatalf("picked %v", u.Guard())
	}
}

// TestPickBridge: a bridge is asked for its descriptor when the asker wants to, and no other guard is.
func TestPickBridge(t *testing.T) {
	cfg := config(1)
	cfg.UseBridges = true
	a, b := relay(5001), relay(5002)
	cfg.Bridges = []Candidate{a, b}
	m, err := New(cfg, &MemStore{}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	of := func(c Candidate) *Use {
		t.Helper()
		u, err := m.PickBridge(c.ID.RSA, epoch)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "bridge", u.Guard().ID, c.ID)
		return u
	}
	of(a).Failed(epoch, Unreachable)
	of(a).Failed(epoch, Unreachable) // although it is down, and another is not
	if _, err := m.PickBridge(relay(1).ID.RSA, epoch); err == nil {
		t.Fatal("a relay that is no bridge")
	}
	of(b).Failed(epoch, Unreachable)
	of(a).Succeeded(epoch)
	m2 := start(t, network(10))
	if _, err := m2.PickBridge(network(10).relays[0].ID.RSA, epoch); err == nil {
		t.Fatal("a guard of the consensus passes for a bridge")
	}
}

// TestBridgeTakenBack: a bridge that is down, and has not given its descriptor, waits for who asks it for that, and those are told
// when it should be tried again all the same.
func TestBridgeTakenBack(t *testing.T) {
	cfg := config(1)
	cfg.UseBridges = true
	bare, whole := relay(5001), relay(5002)
	bare.Bridge, whole.Bridge, bare.Complete = true, true, false
	cfg.Bridges = []Candidate{bare, whole}
	m, err := New(cfg, &MemStore{}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	down := func(cs ...Candidate) {
		t.Helper()
		for _, c := range cs {
			u, err := m.PickBridge(c.ID.RSA, epoch)
			if err != nil {
				t.Fatal(err)
			}
			u.Failed(epoch, Unreachable)
			if m.TakenBack(c.ID.RSA) {
				t.Errorf("%v was taken back", c.ID)
			}
		}
	}
	down(bare, whole)
	later := epoch.Add(24 * time.Hour) // when the other one may be tried again by itself
	want(t, "bridge", pick(t, m, later).Guard().ID, whole.ID)
	if g := m.cur.find(bare.ID.RSA); g.reach != no || m.TakenBack(bare.ID.RSA) {
		t.Errorf("a bridge without descriptor is taken back by time: %v", g.reach)
	}
	for name, back := range map[string]func(){
		"a wish":            m.RetryPrimary,
		"no guard was left": func() { pick(t, m, epoch).Cancelled(epoch) },
	} {
		down(bare, whole)
		back()
		if m.TakenBack(whole.ID.RSA) || !m.TakenBack(bare.ID.RSA) || m.TakenBack(bare.ID.RSA) {
			t.Errorf("%s: the bridge without descriptor alone should be taken back, once", name)
		}
	}
}

// TestBridged: a bridge is known to work once it was reached, if it has given its descriptor.
func TestBridged(t *testing.T) {
	cfg := config(1)
	cfg.UseBridges = true
	c := relay(5001)
	c.Bridge, c.Complete = true, false
	cfg.Bridges = []Candidate{c}
	m, err := New(cfg, &MemStore{}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	is := func(what string, want bool) {
		t.Helper()
		if m.Bridged() != want {
			t.Errorf("%s: %v", what, !want)
		}
	}
	use := func() *Use {
		u, err := m.PickBridge(c.ID.RSA, epoch)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	is("at the start", false)
	use().Succeeded(epoch)
	is("reached, without descriptor", false)
	c.Complete = true
	m.SetBridges([]Candidate{c}, epoch)
	is("with it", true)
	use().Failed(epoch, Unreachable)
	is("down", false)
	m.RetryPrimary()
	is("perhaps up", false)
	if start(t, network(10)).Bridged() {
		t.Error("without bridges")
	}
}

// TestBridgeWithoutDescriptor: a bridge that has not given its descriptor yet
// carries no traffic, and keeps no other bridge from doing so.
func TestBridgeWithoutDescriptor(t *testing.T) {
	cfg := config(1)
	silent, good := relay(5001), relay(5002)
	silent.Bridge, good.Bridge, silent.Complete = true, true, false
	cfg.Bridges = []Candidate{silent, good}
	m, err := New(cfg, &MemStore{}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		u := pick(t, m, epoch)
		want(t, "bridge", u.Guard().ID, good.ID)
		u.Cancelled(epoch)
	}
	m.SetBridges([]Candidate{silent}, epoch)
	if u, err := m.Pick(Request{}, epoch); err == nil {
		t.Fatalf("traffic through %v", u.Guard())
	}
}
