package path

import (
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/geoip"
	"github.com/chivenet/chive/internal/netdir"
)

func TestSetHas(t *testing.T) {
	d := ctor(t)
	r1 := byName(t, d, "r1")
	fp := r1.RSA().String()
	for _, e := range []string{
		"r1", "R1", fp, "$" + fp, strings.ToLower(fp), "$" + fp + "~r1", "$" + fp + "=r1", fp + "~other",
		r1.IPv4().Addr().String(), "127.0.0.0/8", "0.0.0.0/0",
	} {
		s := set(t, "nobody", " "+e+" ")
		if !s.Has(r1) || !s.has(r1.RSA(), r1.Nickname(), r1.Target().Addrs) {
			t.Errorf("%q does not name r1", e)
		}
	}
	for _, e := range []string{"r2", strings.Repeat("A", 40), "10.0.0.0/8", "::/0", "2001:db8::1"} {
		if s := set(t, e); s.Has(r1) && e != "::/0" {
			t.Errorf("%q names r1", e)
		}
	}
	var none Set
	if none.Has(r1) || none.has(r1.RSA(), "r1", nil) || !none.IsZero() {
		t.Error("the zero set names relays")
	}
	if s := set(t, "r1", "r2"); s.String() != "r1,r2" || s.IsZero() {
		t.Error(s.String())
	}
	if n := testing.AllocsPerRun(100, func() { none.Has(netdir.Relay{}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseSetRefuses(t *testing.T) {
	for _, e := range []string{"", "  ", "{de", "{}", "{deu}", "{d }", "{\xff\xff}", "a b", "a-b", "twentycharactersname", "$zz", "10.0.0.0/33", "$" + strings.Repeat("G", 40)} {
		if _, err := ParseSet([]string{e}); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", e, err)
		}
	}
}

func FuzzParseSet(f *testing.F) {
	for _, s := range []string{"r1", "10.0.0.0/8", "2001:db8::/32", "fe80::1%eth0", "::ffff:1.2.3.4/100", "$" + strings.Repeat("AB", 20) + "~x", "{us}"} {
		f.Add(s)
	}
	d := ctor(f)
	f.Fuzz(func(t *testing.T, e string) {
		s, err := ParseSet([]string{e})
		if err != nil {
			return
		}
		if s.IsZero() {
			t.Fatal("an entry was lost")
		}
		for r := range d.All() {
			s.Has(r)
		}
	})
}

// TestCountries: a set names relays by the country of their addresses, once it knows
// countries.
func TestCountries(t *testing.T) {
	d := ctor(t)
	r1 := byName(t, d, "r1") // at 127.0.0.1, which is 2130706433
	table := func(line string) *geoip.Table {
		tb, err := geoip.Parse(geoip.Source{Name: "four", Text: strings.NewReader(line)}, geoip.Source{})
		if err != nil {
			t.Fatal(err)
		}
		return tb
	}
	local := table("2130706432,2147483647,DE\n2147483648,2147483650,FR")
	for _, c := range []struct {
		entry        string
		t            *geoip.Table
		unknown, has bool
	}{
		{"{de}", local, false, true}, {"{DE}", local, true, true}, {"{fr}", local, false, false}, {"{fr}", local, true, false},
		{"{??}", local, false, false}, {"r2", local, true, false}, {"r1", local, false, true},
		{"{??}", table(""), false, true}, {"r2", table(""), true, true},
	} {
		s := set(t, c.entry)
		if s.Countries() != strings.HasPrefix(c.entry, "{") {
			t.Errorf("%s: %v", c.entry, s.Countries())
		}
		if s.Countries() && (s.Has(r1) || s.has(r1.RSA(), "r1", r1.Target().Addrs)) {
			t.Errorf("%s: it knows countries without a table", c.entry)
		}
		known, err := s.WithCountries(c.t, c.unknown)
		if err != nil {
			t.Fatal(err)
		}
		if known.Has(r1) != c.has || known.has(r1.RSA(), "r1", r1.Target().Addrs) != c.has {
			t.Errorf("%s, unknown %v: has r1: %v", c.entry, c.unknown, !c.has)
		}
		if n := testing.AllocsPerRun(100, func() { known.Has(r1) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	s := set(t, "{xx}")
	if _, err := s.WithCountries(local, false); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "{xx}") {
		t.Error("a country that is nowhere:", err)
	}
	var none Set
	if all, err := none.WithCountries(table(""), true); err != nil || all.IsZero() || all.String() != "{??}" || !all.Has(r1) || none.Has(r1) {
		t.Error("an empty set cannot have the relays that are nowhere")
	}
	if Country(local, nil) != geoip.Unknown {
		t.Error("no address is in a country")
	}
}
