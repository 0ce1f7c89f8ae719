package path

import (
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
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
	for _, e := range []string{"", "  ", "{de}", "a b", "a-b", "twentycharactersname", "$zz", "10.0.0.0/33", "$" + strings.Repeat("G", 40)} {
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
