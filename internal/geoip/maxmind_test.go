package geoip

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"github.com/chivenet/chive/internal/fault"
)

// maxmindOf writes a MaxMind database with MaxMind's own writer.
func maxmindOf(t testing.TB, o mmdbwriter.Options, records map[string]mmdbtype.DataType) []byte {
	t.Helper()
	o.IncludeReservedNetworks = true
	if o.DatabaseType == "" {
		o.DatabaseType = "Test-Country"
	}
	tree, err := mmdbwriter.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for r, v := range records {
		low, high, _ := strings.Cut(r, "-")
		if err := tree.InsertRange(netip.MustParseAddr(low).AsSlice(), netip.MustParseAddr(high).AsSlice(), v); err != nil {
			t.Fatal(err)
		}
	}
	return written(t, tree)
}

func written(t testing.TB, tree *mmdbwriter.Tree) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := tree.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// in is a record as GeoLite2-City has them, with more than what is read.
func in(code string) mmdbtype.DataType {
	names := mmdbtype.Map{"de": mmdbtype.String("Stadt"), "en": mmdbtype.String("city")}
	out := mmdbtype.Map{
		"city":         mmdbtype.Map{"geoname_id": mmdbtype.Uint32(7), "names": names},
		"location":     mmdbtype.Map{"latitude": mmdbtype.Float64(1.5), "is_in_european_union": mmdbtype.Bool(true)},
		"subdivisions": mmdbtype.Slice{mmdbtype.Map{"iso_code": mmdbtype.String("ZZ"), "names": names}},
	}
	if code != "" {
		out["country"] = mmdbtype.Map{"geoname_id": mmdbtype.Uint32(9), "iso_code": mmdbtype.String(code), "names": names}
	}
	return out
}

// sample is what the texts of sampleText say.
func sample(t testing.TB, o mmdbwriter.Options) []byte {
	t.Helper()
	r := map[string]mmdbtype.DataType{
		"0.0.0.0-0.0.0.255": in("US"), "0.0.1.0-0.0.1.255": in("us"), "0.0.2.88-0.0.2.188": in("DE"), "192.0.2.0-192.0.2.255": in(""), "224.0.0.0-255.255.255.255": in("A1"),
	}
	if o.IPVersion != 4 {
		r["2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"] = in("FR")
		r["2001:db9::1-2001:db9::1"] = in("GB")
		r["2001:db9::2-2001:dba::"] = in("DE")
		r["ffff::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] = in("IT")
	}
	return maxmindOf(t, o, r)
}

const (
	sampleText  = "0,255,US\n256,511,us\n600,700,DE\n3758096384,4294967295,A1\n"
	sampleText6 = "2001:db8::,2001:db8:ffff:ffff:ffff:ffff:ffff:ffff,FR\n2001:db9::1,2001:db9::1,GB\n2001:db9::2,2001:dba::,DE\nffff::,ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff,IT\n"
)

// same compares two tables; the numbers of their countries may differ.
func same(t *testing.T, got, want *Table) {
	t.Helper()
	for i, pair := range [][2]*ranges{{&got.four, &want.four}, {&got.six, &want.six}} {
		a, b := all(got, pair[0]), all(want, pair[1])
		if !slices.Equal(a, b) {
			t.Errorf("table %d has %d ranges, want %d: %.500v, want %.500v", i, len(a), len(b), a, b)
		}
	}
}

type begin struct {
	at
	country string
}

func all(t *Table, r *ranges) (out []begin) {
	for i := range r.first {
		for at, is := range r.block(i) {
			out = append(out, begin{at, t.codes[is]})
		}
	}
	return out
}

// TestMaxMind: a database gives the same answers as a file of C tor's form with the same data.
func TestMaxMind(t *testing.T) {
	want := table(t, sampleText, sampleText6)
	for _, size := range []int{24, 28, 32} {
		for _, plain := range []bool{false, true} {
			db := sample(t, mmdbwriter.Options{RecordSize: size, DisableIPv4Aliasing: plain})
			both, err := Parse(Source{Name: "four", Text: bytes.NewReader(db)}, Source{Name: "six", Text: bytes.NewReader(db)})
			if err != nil {
				t.Fatal(err)
			}
			same(t, both, want)
			one, err := Parse(Source{Name: "four", Text: bytes.NewReader(db)}, Source{Name: "usual", Text: strings.NewReader("::,::1,FR"), Usual: true})
			if err != nil {
				t.Fatal(err)
			}
			same(t, one, want)
			mixed, err := Parse(Source{Name: "four", Text: strings.NewReader(sampleText)}, Source{Name: "six", Text: bytes.NewReader(db)})
			if err != nil {
				t.Fatal(err)
			}
			same(t, mixed, want)
			mixed, err = Parse(Source{Name: "four", Text: bytes.NewReader(db)}, Source{Name: "six", Text: strings.NewReader("::,::1,FR")})
			if err != nil {
				t.Fatal(err)
			}
			same(t, mixed, table(t, sampleText, "::,::1,FR"))
		}
	}
	// A database without IPv6 addresses does not take the place of the usual file.
	for _, o := range []mmdbwriter.Options{{IPVersion: 4}, {}} {
		db := maxmindOf(t, o, map[string]mmdbtype.DataType{"0.0.0.0-0.0.0.255": in("US")})
		got, err := Parse(Source{Name: "four", Text: bytes.NewReader(db)}, Source{Name: "usual", Text: strings.NewReader("::,::1,FR"), Usual: true})
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, table(t, "0,255,US", "::,::1,FR"))
	}
	// One record for all addresses.
	everywhere := maxmindOf(t, mmdbwriter.Options{}, map[string]mmdbtype.DataType{"::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff": in("DE")})
	got, err := Parse(Source{Name: "four", Text: bytes.NewReader(everywhere)}, Source{})
	if err != nil || got.Country(netip.MustParseAddr("1.2.3.4")) != "de" || got.Country(netip.MustParseAddr("255.255.255.255")) != "de" || got.Country(netip.MustParseAddr("1::")) != "de" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestMaxMindDebian makes a database of every 20th line of Debian's tor-geoipdb.
func TestMaxMindDebian(t *testing.T) {
	four, six := debian(t)
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Test-Country", IncludeReservedNetworks: true, DisableIPv4Aliasing: true, RecordSize: 24})
	if err != nil {
		t.Fatal(err)
	}
	some := func(text []byte, addr func(string) netip.Addr) string {
		var out strings.Builder
		n := 0
		for line := range strings.Lines(string(text)) {
			f := strings.Split(strings.TrimSpace(line), ",")
			if len(f) != 3 || line[0] == '#' || f[2] == Unknown {
				continue
			}
			if n++; n%20 != 0 {
				continue
			}
			out.WriteString(line)
			v := mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String(f[2])}}
			if err := tree.InsertRange(addr(f[0]).AsSlice(), addr(f[1]).AsSlice(), v); err != nil {
				t.Fatal(err)
			}
		}
		return out.String()
	}
	text4 := some(four, func(s string) netip.Addr {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	})
	text6 := some(six, netip.MustParseAddr)
	db := written(t, tree)
	got, err := Parse(Source{Name: "four", Text: bytes.NewReader(db)}, Source{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, table(t, text4, text6))
	t.Logf("a database of %d bytes: %d and %d ranges", len(db), got.four.n, got.six.n)
}

// raw makes a database by hand, with whatever tree and records.
func raw(ip uint16, nodes [][2]uint32, data string) []byte {
	var b []byte
	for _, n := range nodes {
		for _, to := range n {
			b = append(b, byte(to>>16), byte(to>>8), byte(to))
		}
	}
	b = append(b, make([]byte, 16)...)
	b = append(b, data...)
	b = append(b, "\xab\xcd\xefMaxMind.com"...)
	b = append(b, 7<<5|5)
	number := func(key string, n int) {
		b = append(append(b, 2<<5|byte(len(key))), key...)
		b = append(b, 6<<5|4, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	number("node_count", len(nodes))
	number("record_size", 24)
	number("ip_version", int(ip))
	number("binary_format_major_version", 2)
	b = append(b, 2<<5|13)
	b = append(b, "database_type"...)
	return append(b, "\x44hand"...)
}

// The records of a database by hand.
const (
	german = "\xe1\x47country\xe1\x48iso_code\x42DE" // {"country": {"iso_code": "DE"}}
	within = "\xe1\x47country\x20\x00"               // {"country": itself}
)

// chain is a tree in which both ways of each node lead to the next: 2^n networks.
func chain(n int, last uint32) (out [][2]uint32) {
	for i := range uint32(n - 1) {
		out = append(out, [2]uint32{i + 1, i + 1})
	}
	return append(out, [2]uint32{last, last})
}

// TestMaxMindHostile: an error names the file and says what is wrong.
func TestMaxMindHostile(t *testing.T) {
	if tb, err := Parse(Source{Name: "four", Text: bytes.NewReader(raw(4, [][2]uint32{{1, 17}}, german))}, Source{}); err != nil || tb.Country(netip.MustParseAddr("128.0.0.0")) != "de" || tb.Country(netip.MustParseAddr("127.0.0.0")) != Unknown {
		t.Fatal("the database by hand is wrong: ", err)
	}
	good := sample(t, mmdbwriter.Options{})
	country := func(v mmdbtype.DataType) []byte {
		return maxmindOf(t, mmdbwriter.Options{}, map[string]mmdbtype.DataType{"10.0.0.0-10.0.0.255": v})
	}
	nested := mmdbtype.DataType(mmdbtype.Slice{})
	for range 100 {
		nested = mmdbtype.Map{"a": mmdbtype.Slice{nested}}
	}
	// A list of 28 pointers to a list of 28 pointers to a list ...
	lists := "\xe1\x41a"
	for range 7 {
		lists += "\x1c\x04"
		to := len(lists) + 28*2
		lists += strings.Repeat(string([]byte{1<<5 | byte(to>>8), byte(to)}), 28)
	}
	lists += "\xe0"
	loop := "\xe2\x41a\x20\x00\x47country\x20\x00" // a map with itself below "a"
	for name, c := range map[string]struct {
		db   []byte
		want string
	}{
		"no metadata":        {good[:len(good)-200], "nor a MaxMind database"},
		"another database":   {maxmindOf(t, mmdbwriter.Options{DatabaseType: "GeoLite2-ASN"}, map[string]mmdbtype.DataType{"10.0.0.0-10.0.0.255": mmdbtype.Map{"autonomous_system_number": mmdbtype.Uint32(64496)}}), `(type "GeoLite2-ASN") has no country`},
		"nothing":            {maxmindOf(t, mmdbwriter.Options{}, nil), `has no country of such an address`},
		"record":             {country(mmdbtype.String("DE")), "10.0.0.0/24"},
		"country":            {country(mmdbtype.Map{"country": mmdbtype.String("DE")}), "10.0.0.0/24"},
		"code":               {country(mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.Uint16(1)}}), "10.0.0.0/24"},
		"long code":          {country(in("DEU")), `"DEU" is not the code of a country`},
		"huge code":          {country(in(strings.Repeat("D", 1<<16))), "10.0.0.0/24"},
		"deep":               {country(mmdbtype.Map{"a": nested}), "in each other"},
		"cut":                {raw(4, [][2]uint32{{1, 17}}, german[:12]), "128.0.0.0/1"},
		"cut tree":           {raw(4, [][2]uint32{{1, 3000}}, german), "corrupt"},
		"loop":               {raw(4, [][2]uint32{{0, 0}}, german), "MaxMind database: "},
		"chain":              {raw(6, chain(100, 116), german), "loops"},
		"empty chain":        {raw(6, chain(100, 100), german), "loops"},
		"chain of aliases":   {raw(6, append(chain(96, 96), [2]uint32{97, 113}), german), "loops"},
		"itself":             {raw(4, [][2]uint32{{1, 17}}, within), "in each other"},
		"below itself":       {raw(4, [][2]uint32{{1, 17}}, loop), "in each other"},
		"IPv5":               {raw(5, [][2]uint32{{1, 17}}, german), "for IPv5"},
		"list in each other": {raw(4, [][2]uint32{{1, 17}}, lists), "in each other"},
	} {
		_, err := Parse(Source{Name: "four", Text: bytes.NewReader(c.db)}, Source{})
		if !fault.Is(err, fault.Config) || !strings.HasPrefix(err.Error(), "four: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	four := sample(t, mmdbwriter.Options{IPVersion: 4})
	if _, err := Parse(Source{Name: "four", Text: bytes.NewReader(four)}, Source{Name: "six", Text: bytes.NewReader(four)}); err == nil || err.Error() != `six: the MaxMind database (type "Test-Country") has only IPv4 addresses` {
		t.Error(err)
	}
	for n := range len(good) {
		if _, err := Parse(Source{Name: "four", Text: bytes.NewReader(good[:n])}, Source{}); err == nil && n > 0 {
			if n < len(good)-40 { // what the metadata ends with is not needed
				t.Errorf("%d bytes of %d are a database", n, len(good))
			}
		}
	}
	zero := &zeros{}
	if _, err := Parse(Source{Name: "four", Text: zero}, Source{}); err == nil || !strings.Contains(err.Error(), "more than") || zero.read > MaxSize+1<<20 {
		t.Errorf("%v after %d bytes", err, zero.read)
	}
	broken := fmt.Errorf("the disk is broken")
	if _, err := Parse(Source{Name: "four", Text: io.MultiReader(bytes.NewReader(good[:200]), failing{broken})}, Source{}); err == nil || !strings.Contains(err.Error(), "the disk is broken") {
		t.Error(err)
	}
}

// zeros is a file without end that is no text.
type zeros struct{ read int }

func (z *zeros) Read(b []byte) (int, error) {
	clear(b)
	z.read += len(b)
	return len(b), nil
}

func FuzzMaxMind(f *testing.F) {
	f.Add(sample(f, mmdbwriter.Options{}), true)
	f.Add(sample(f, mmdbwriter.Options{IPVersion: 4, RecordSize: 24}), false)
	f.Add(sample(f, mmdbwriter.Options{RecordSize: 32, DisableIPv4Aliasing: true}), true)
	f.Add(raw(4, [][2]uint32{{1, 17}}, german), false)
	f.Add(raw(6, chain(20, 36), german), true)
	f.Add(raw(6, append(chain(96, 96), [2]uint32{97, 113}), german), true)
	f.Add(raw(4, [][2]uint32{{1, 17}}, within), false)
	f.Fuzz(func(t *testing.T, db []byte, six bool) {
		s := Source{Name: "six", Text: bytes.NewReader(db)}
		if !six {
			s = Source{}
		}
		tb, err := Parse(Source{Name: "four", Text: bytes.NewReader(db)}, s)
		if err != nil {
			if !fault.Is(err, fault.Config) {
				t.Fatal(err)
			}
			return
		}
		for _, r := range []*ranges{&tb.four, &tb.six} {
			if n := inOrder(t, r); n == 0 || n != r.n {
				t.Fatalf("%d ranges of %d", n, r.n)
			}
		}
		for _, a := range []string{"0.0.0.0", "0.0.1.0", "255.255.255.255", "::", "2001:db8::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"} {
			if _, err := Code(tb.Country(netip.MustParseAddr(a))); err != nil {
				t.Fatal(err)
			}
		}
	})
}
