package geoip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

func table(t testing.TB, four, six string) *Table {
	t.Helper()
	out, err := Parse(Source{Name: "four", Text: strings.NewReader(four)}, Source{Name: "six", Text: strings.NewReader(six)})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCountry(t *testing.T) {
	// 192.0.2.0 is 3221225984.
	tb := table(t, "# a comment\r\n\n0,255,US\n256,511,us\n600,700,DE\n3221225984,3221226239,??\n\"3758096384\",\"4294967295\",\"A1\",\"x\",\"An Onymous\"\n",
		"2001:db8::,2001:db8:ffff:ffff:ffff:ffff:ffff:ffff,FR\n2001:db9::1,2001:db9::1,GB\n2001:db9::2,2001:dba::,DE\n")
	for addr, want := range map[string]string{
		"0.0.0.0": "us", "0.0.0.255": "us", "0.0.1.255": "us", "0.0.2.0": Unknown, "0.0.2.87": Unknown, "0.0.2.88": "de", "0.0.2.188": "de", "0.0.2.189": Unknown,
		"192.0.2.1": Unknown, "223.255.255.255": Unknown, "224.0.0.0": "a1", "255.255.255.255": "a1", "::ffff:0.0.0.1": "us",
		"::": Unknown, "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff": Unknown, "2001:db8::": "fr", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff": "fr",
		"2001:db9::": Unknown, "2001:db9::1": "gb", "2001:db9::2": "de", "2001:dba::": "de", "2001:dba::1": Unknown, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff": Unknown,
	} {
		if got := tb.Country(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	if tb.Country(netip.Addr{}) != Unknown {
		t.Error("no address is in a country")
	}
	if tb.four.n != 5 { // the two ranges of the US are one
		t.Errorf("%d ranges", tb.four.n)
	}
	if !tb.Knows("de") || !tb.Knows(Unknown) || tb.Knows("it") {
		t.Error(tb.codes)
	}
	four, six := netip.MustParseAddr("0.0.2.90"), netip.MustParseAddr("2001:db8::1")
	if tb.Of(four, six) != "de" || tb.Of(netip.MustParseAddr("0.0.2.0"), six) != "fr" || tb.Of(four, netip.Addr{}) != "de" || tb.Of(netip.Addr{}, netip.Addr{}) != Unknown {
		t.Error("a relay's country is not that of its IPv4 address first")
	}
	if n := testing.AllocsPerRun(100, func() { tb.Of(netip.AddrFrom4([4]byte{192, 0, 2, 1}), six) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestEnds: a file may cover the whole address space, one address, or nothing.
func TestEnds(t *testing.T) {
	all := table(t, "0,4294967295,DE", "::,ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff,FR")
	none := table(t, "", "# nothing\n")
	last := table(t, "4294967295,4294967295,DE", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff,ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff,FR")
	for _, c := range []struct {
		t          *Table
		addr, want string
	}{
		{all, "0.0.0.0", "de"}, {all, "255.255.255.255", "de"}, {all, "::", "fr"}, {all, "ffff::1", "fr"},
		{none, "0.0.0.0", Unknown}, {none, "255.255.255.255", Unknown}, {none, "::1", Unknown}, {none, "ffff::", Unknown},
		{last, "255.255.255.254", Unknown}, {last, "255.255.255.255", "de"}, {last, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", Unknown}, {last, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fr"},
	} {
		if got := c.t.Country(netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s: %s, want %s", c.addr, got, c.want)
		}
	}
	if only, err := Parse(Source{Name: "four"}, Source{Name: "six"}); err != nil || only.Country(netip.MustParseAddr("192.0.2.1")) != Unknown {
		t.Errorf("without files: %v", err)
	}
}

// TestHostileFiles: an error names the file and the line.
func TestHostileFiles(t *testing.T) {
	for text, want := range map[string]string{
		"0,1":                                        "four:1: it is not LOW,HIGH,CC",
		"0,1,DE\n\n# x\n2,3,DE,x":                    "four:4: it is not LOW,HIGH,CC",
		"\x00\x01\xab\xcd\xefMaxMind.com":            "four: MaxMind database: ",
		"\x7fELF\x02\x01\x01\x00":                    "four: it is neither a file of C tor's form",
		strings.Repeat("2", 1<<16):                   "four: it is neither a file of C tor's form",
		strings.Repeat("0,1,DE\n", 1<<13) + "\x00":   "four:2: the range does not come after",
		strings.Repeat("# x     \n", 1<<13) + "\x00": "four:8193: it is no text",
		"0,1,DEU":                               `four:1: "DEU" is not the code of a country`,
		"0,1,d ":                                `four:1: "d" is not the code of a country`,
		"0,1,\xff\xff":                          "is not the code of a country",
		"1.2.3.4,1.2.3.5,DE":                    `four:1: "1.2.3.4" is not an IPv4 address as a number`,
		"0,4294967296,DE":                       `four:1: "4294967296" is not an IPv4 address as a number`,
		"-1,2,DE":                               "is not an IPv4 address as a number",
		"5,4,DE":                                "four:1: the range ends before it begins",
		"0,9,DE\n9,12,FR":                       "four:2: the range does not come after the one before",
		"5,9,DE\n0,1,FR":                        "four:2: the range does not come after the one before",
		"0,4294967295,DE\n0,1,FR":               "four:2: the range does not come after the one before",
		"0,1,DE\n" + strings.Repeat("2", 1<<16): "four:2: it is no text: give a file of C tor's form, as in Debian's tor-geoipdb, or a MaxMind database (MMDB)",
		"::,::1,DE":                             "is not an IPv4 address as a number",
	} {
		_, err := Parse(Source{Name: "four", Text: strings.NewReader(text)}, Source{})
		if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"::,1,DE":                       `six:1: "1" is not an IPv6 address`,
		"::1,::,DE":                     "six:1: the range ends before it begins",
		"::,fe80::1%eth0,DE":            "is not an IPv6 address",
		"1.2.3.4,1.2.3.5,DE":            "is not an IPv6 address",
		"1::,2::,DE\n2::,3::,FR":        "six:2: the range does not come after",
		"::,::ffff:ffff,DE\n::1,::2,FR": "six:2: the range does not come after",
	} {
		_, err := Parse(Source{}, Source{Name: "six", Text: strings.NewReader(text)})
		if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	var all strings.Builder
	for i := range 36 * 36 {
		fmt.Fprintf(&all, "%d,%d,%c%c\n", i, i, alnum[i/36], alnum[i%36])
	}
	if tb := table(t, all.String(), ""); tb.Country(netip.MustParseAddr("0.0.0.0")) != "00" || tb.Country(netip.MustParseAddr("0.0.5.15")) != "zz" {
		t.Error("codes are lost")
	}
	broken := errors.New("the disk is broken")
	if _, err := Parse(Source{Name: "four", Text: io.MultiReader(strings.NewReader("0,1,DE\n"), failing{broken})}, Source{}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

const alnum = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// endless is a file of comments without end, as a pipe could be.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '#'
		if (e.read+i)%300 == 299 {
			b[i] = '\n'
		}
	}
	e.read += len(b)
	return len(b), nil
}

func TestSizeIsBounded(t *testing.T) {
	e := new(endless)
	_, err := Parse(Source{Name: "four", Text: e}, Source{})
	if err == nil || !strings.Contains(err.Error(), "more than") || e.read > MaxSize+1<<20 {
		t.Errorf("%v after %d bytes", err, e.read)
	}
}

// TestDebian compares the table of Debian's tor-geoipdb with its text, line by line.
func TestDebian(t *testing.T) {
	four, six := debian(t)
	tb, err := Parse(Source{Name: UsualFile, Text: bytes.NewReader(four)}, Source{Name: UsualFile6, Text: bytes.NewReader(six)})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	lines := 0
	check := func(text []byte, addr func(string) netip.Addr) {
		for line := range strings.Lines(string(text)) {
			f := strings.Split(strings.TrimSpace(line), ",")
			if strings.HasPrefix(line, "#") || len(f) != 3 {
				continue
			}
			lines++
			want := strings.ToLower(f[2])
			for _, a := range []netip.Addr{addr(f[0]), addr(f[1])} {
				if got := tb.Country(a); got != want {
					t.Fatalf("%s: %s, want %s", a, got, want)
				}
			}
		}
	}
	check(four, func(s string) netip.Addr {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	})
	check(six, netip.MustParseAddr)
	size := 0
	for _, r := range []*ranges{&tb.four, &tb.six} {
		if n := inOrder(t, r); n != r.n {
			t.Errorf("%d ranges of %d", n, r.n)
		}
		size += 16*cap(r.first) + 4*cap(r.bytes) + cap(r.data)
	}
	// Between two begins, nothing changes.
	for range 10_000 {
		block := rng.IntN(len(tb.four.first))
		var from at
		var is uint16
		for begin, country := range tb.four.block(block) {
			if n := uint32(from[0]>>8) + rng.Uint32N(uint32((begin[0]-from[0])>>8)|1); from != (at{}) && n < uint32(begin[0]>>8) {
				if got := tb.Country(netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})); got != tb.codes[is] {
					t.Fatal(block, got)
				}
			}
			from, is = begin, country
		}
	}
	t.Logf("%d lines: %d and %d ranges, %d countries, %d bytes", lines, tb.four.n, tb.six.n, len(tb.codes)-1, size)
	if lines < 100_000 || size > 4<<20 {
		t.Errorf("%d lines take %d bytes", lines, size)
	}
}

// inOrder returns how many ranges there are, which ascend from 0, and of which no
// neighbours have one country.
func inOrder(t *testing.T, r *ranges) (n int) {
	t.Helper()
	var last at
	var is uint16
	for i := range r.first {
		for begin, country := range r.block(i) {
			if n == 0 && begin != (at{}) || n > 0 && (last.compare(begin) >= 0 || is == country) {
				t.Fatalf("range %d begins at %x, after %x", n, begin, last)
			}
			n, last, is = n+1, begin, country
		}
	}
	return n
}

func debian(t testing.TB) (four, six []byte) {
	t.Helper()
	four, err := os.ReadFile(UsualFile)
	if err == nil {
		six, err = os.ReadFile(UsualFile6)
	}
	if err != nil && os.Getenv("CHIVE_INTEROP") != "" {
		t.Fatalf("install tor-geoipdb: %v", err)
	}
	if err != nil {
		t.Skipf("NOT RUN: install tor-geoipdb: %v", err)
	}
	return four, six
}

func BenchmarkParse(b *testing.B) {
	four, six := debian(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(Source{Name: UsualFile, Text: bytes.NewReader(four)}, Source{Name: UsualFile6, Text: bytes.NewReader(six)}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCountry(b *testing.B) {
	four, six := debian(b)
	tb, err := Parse(Source{Name: UsualFile, Text: bytes.NewReader(four)}, Source{Name: UsualFile6, Text: bytes.NewReader(six)})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		at := rng.Uint32()
		tb.Country(netip.AddrFrom4([4]byte{byte(at >> 24), byte(at >> 16), byte(at >> 8), byte(at)}))
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0,255,US\n300,400,de\n", "2001:db8::,2001:db8::ffff,FR\n")
	f.Add("\"0\",\"255\",\"US\",\"USA\",\"x\"\n", "# x\n::,::1,??\n")
	f.Add("4294967295,4294967295,A1", "ffff::,ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff,GB")
	f.Fuzz(func(t *testing.T, four, six string) {
		tb, err := Parse(Source{Name: "four", Text: strings.NewReader(four)}, Source{Name: "six", Text: strings.NewReader(six)})
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
