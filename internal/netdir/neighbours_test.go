package netdir

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/netdoc"
)

// TestNeighbours: two relays are family only if each names the other, so that nobody can keep a
// relay out of paths by claiming it; and neighbours if they share an IPv4 /16 or an IPv6 /32.
func TestNeighbours(t *testing.T) {
	d := ctor(t)
	a, b, c := byName(t, d, "r1"), byName(t, d, "r2"), byName(t, d, "r3")
	if !d.SameFamily(a, b) {
		t.Fatal("r1 and r2 are no family: the test shows nothing")
	}
	mds := append([]*netdoc.Microdesc(nil), d.mds...)
	silent := *mds[b.Index()]
	silent.Family = mds[c.Index()].Family // which does not name r1
	mds[b.Index()] = &silent
	one := d.with(mds)
	if one.SameFamily(one.Relay(a.Index()), one.Relay(b.Index())) || one.SameFamily(one.Relay(b.Index()), one.Relay(a.Index())) {
		t.Error("one side's word makes a family")
	}
	for _, x := range []struct {
		six  [2]string
		same bool
	}{
		{[2]string{"2a00:1:1::1", "2a00:1:ffff::2"}, true},
		{[2]string{"2a00:1::1", "2a00:2::1"}, false},
		{[2]string{"", "2a00:1::1"}, false},
	} {
		for i, r := range []Relay{a, b} {
			d.relays[r.Index()].addr, d.relays[r.Index()].six = [4]byte{10, byte(i), 0, 1}, -1
			if x.six[i] != "" {
				d.relays[r.Index()].six = int32(len(d.six))
				d.six = append(d.six, netip.AddrPortFrom(netip.MustParseAddr(x.six[i]), 9001))
			}
		}
		if d.SameSubnet(a, b) != x.same || d.SameSubnet(b, a) != x.same {
			t.Errorf("%q: %v", x.six, !x.same)
		}
	}
}

// TestFactors has the bandwidth weights of a consensus as literals: what each class of relays
// counts in each position, in parts of 10,000.
func TestFactors(t *testing.T) {
	var w netdoc.Params
	n := int32(100)
	for _, name := range []string{"Wgm", "Wgg", "Wgd", "Wmm", "Wmg", "Wme", "Wmd", "Wem", "Weg", "Wee", "Wed", "Wbm", "Wbg", "Wbe", "Wbd"} {
		w = append(w, netdoc.Param{Name: name, Value: n})
		n += 100
	}
	for name, v := range map[string]int32{"Wmb": 5000, "Wgb": 2500, "Web": 10000, "Wdb": 7500} {
		w = append(w, netdoc.Param{Name: name, Value: v})
	}
	slices.SortFunc(w, func(a, b netdoc.Param) int { return strings.Compare(a.Name, b.Name) }) // as in a consensus
	got := positionFactors(w, 10000)
	for _, x := range []struct {
		pos   Position
		flags netdoc.Flags
		want  int64 // parts of 10,000
	}{
		{PosGuard, 0, 100}, {PosGuard, FlagGuard, 200}, {PosGuard, FlagExit, 0}, {PosGuard, FlagGuard | FlagExit, 300},
		{PosMiddle, 0, 400}, {PosMiddle, FlagGuard, 500}, {PosMiddle, FlagExit, 600}, {PosMiddle, FlagGuard | FlagExit, 700},
		{PosExit, 0, 800}, {PosExit, FlagGuard, 900}, {PosExit, FlagExit, 1000}, {PosExit, FlagGuard | FlagExit, 1100},
		{PosDir, FlagV2Dir, 1200}, {PosDir, FlagV2Dir | FlagGuard, 1300}, {PosDir, FlagV2Dir | FlagExit, 1400}, {PosDir, FlagV2Dir | FlagGuard | FlagExit, 1500},
		{PosMiddle, FlagV2Dir, 200}, {PosMiddle, FlagV2Dir | FlagGuard, 125}, {PosMiddle, FlagV2Dir | FlagExit, 600}, {PosMiddle, FlagV2Dir | FlagGuard | FlagExit, 525},
		{PosMiddle, FlagExit | FlagBadExit, 400}, {PosExit, FlagGuard | FlagExit | FlagBadExit, 900},
	} {
		r := relay{flags: x.flags}
		if parts := float64(got[x.pos][r.class()]) * 10000 / factorUnit; parts < float64(x.want)-1 || parts > float64(x.want)+1 {
			t.Errorf("position %d, %v: %.1f, not %d", x.pos, x.flags, parts, x.want)
		}
	}
}
