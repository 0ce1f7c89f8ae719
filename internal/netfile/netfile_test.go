package netfile

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
)

const (
	fp1 = "F533C81CEF0BC0267857C99B2F471ADF249FA232"
	fp2 = "2F3DF9CA0E5D36F2685A2DA67184EB8DCB8CBA8C"
	ed1 = "5XEJ1ptyqLJMdJNAvLKXJ8Om7bBLTd6zd4ceNcdCUN0"

	minimal = `name = "lab"
[[authority]]
nickname = "a1"
v3ident = "` + fp1 + `"
rsa = "` + fp2 + `"
ed25519 = "` + ed1 + `"
orport = ["192.0.2.1:9001", "[2001:db8::1]:9001"]
dirport = "192.0.2.1:9030"
`
)

func TestParse(t *testing.T) {
	n, err := Parse("f", []byte(minimal+`[[fallback]]
rsa = "`+fp1+`"
orport = ["198.51.100.2:443"]
[testing]
enforce_distinct_subnets = false
voting_interval = "5m"
`))
	if err != nil {
		t.Fatal(err)
	}
	a := n.Authorities[0]
	if n.Name != "lab" || a.Nickname != "a1" || a.V3Ident.String() != fp1 || a.RSA.String() != fp2 || a.Ed.String() != ed1 ||
		len(a.ORPorts) != 2 || a.DirPort.Port() != 9030 || len(n.Fallbacks) != 1 || n.Fallbacks[0].ORPorts[0].Port() != 443 {
		t.Fatalf("%+v", n)
	}
	if n.Testing != (netdir.Testing{VotingInterval: 5 * time.Minute}) {
		t.Fatalf("%+v", n.Testing)
	}
	if n, err = Parse("f", []byte(minimal)); err != nil || n.Testing != netdir.DefaultTesting() {
		t.Fatalf("without [testing]: %+v %v", n, err)
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{`name = "lab"`, ``, `f: name ""`},
		{`"lab"`, `"../lab"`, `f: name "../lab"`},
		{`nickname = "a1"`, `nickname = "a-1"`, `f: authority 1 ("a-1"): nickname`},
		{`nickname`, `nicname`, `f: unknown key "authority.nicname"; did you mean "nickname"?`},
		{fp1, fp1[1:], `f: authority 1 ("a1"): v3ident: RSA fingerprint: 39 characters`},
		{`rsa = "` + fp2 + `"`, ``, `f: authority 1 ("a1"): rsa: RSA fingerprint: 0 characters`},
		{ed1, ed1[1:], `f: authority 1 ("a1"): ed25519: `},
		{`192.0.2.1:9001`, `example.org:9001`, `f: authority 1 ("a1"): orport: "example.org:9001" is not an IP address and a port`},
		{`192.0.2.1:9001`, `192.0.2.1:0`, `f: authority 1 ("a1"): orport: "192.0.2.1:0" is not`},
		{`192.0.2.1:9001`, `127.0.0.1:9001`, `f: authority 1 ("a1"): 127.0.0.1:9001 is not a public address; a private network needs`},
		{`192.0.2.1:9030`, `10.0.0.1:9030`, `f: authority 1 ("a1"): 10.0.0.1:9030 is not a public address`},
		{`orport = ["192.0.2.1:9001", "[2001:db8::1]:9001"]`, ``, `f: no authority has an orport`},
		{`[[authority]]`, `[[fallback]]`, `f: unknown key "fallback.nickname"`},
	} {
		doc := strings.Replace(minimal, tt.from, tt.to, 1)
		if _, err := Parse("f", []byte(doc)); !fault.Is(err, fault.Config) || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q for %q: %v, want %q", tt.to, tt.from, err, tt.want)
		}
	}
	for _, tt := range []struct{ add, want string }{
		{strings.TrimPrefix(minimal, "name = \"lab\"\n"), `f: authority 2 ("a1"): v3ident is another authority's`},
		{"[testing]\nvoting_interval = '1s'\n", `f: testing: voting_interval "1s"`},
		{"[testing]\nallow_private = true\n", `f: unknown key "testing.allow_private"`},
		{"[[fallback]]\nrsa = '" + fp1 + "'\n", `f: fallback 1: rsa and orport are needed`},
		{"[[fallback]]\norport = []\n", `f: fallback 1: rsa: `},
	} {
		if _, err := Parse("f", []byte(minimal+tt.add)); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.add, err, tt.want)
		}
	}
	if _, err := Parse("f", []byte(`name = "x"`)); err == nil || !strings.Contains(err.Error(), "0 authorities") {
		t.Errorf("no authority: %v", err)
	}
}

// TestRoundTrip writes networks, the public one among them, and reads them
// back.
func TestRoundTrip(t *testing.T) {
	small, err := Parse("f", []byte(minimal+"[testing]\nallow_private_addresses = true\nvoting_interval = '20s'\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []*netdir.Network{small, netdir.Public()} {
		b, err := Format(n)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse("again", b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if !reflect.DeepEqual(n, got) {
			t.Errorf("%s changed on the way:\n%+v\n%+v", n.Name, n, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Fuzz(func(t *testing.T, doc []byte) { reread(t, doc, Parse) })
}

func FuzzImportTorrc(f *testing.F) {
	f.Add([]byte(torrcText))
	f.Fuzz(func(t *testing.T, doc []byte) {
		reread(t, doc, func(name string, text []byte) (*netdir.Network, error) { return ImportTorrc(name, "torrc", text) })
	})
}

// reread holds that whatever is accepted can be written and read again.
func reread(t *testing.T, doc []byte, read func(string, []byte) (*netdir.Network, error)) {
	n, err := read("fuzz", doc)
	if err != nil {
		if !fault.Is(err, fault.Config) {
			t.Fatalf("kind of %v", err)
		}
		return
	}
	b, err := Format(n)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Parse("again", b); err != nil || !reflect.DeepEqual(n, again) {
		t.Fatalf("%v\n%+v\n%+v", err, n, again)
	}
}

// TestBounds: what is at a bound passes, and what is beyond it does not, in a file and in what a program made.
func TestBounds(t *testing.T) {
	ap := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	id := func(i int) (id ident.RSAID) {
		id[0], id[1], id[19] = byte(i), byte(i>>8), 1
		return id
	}
	make := func(change func(n *netdir.Network)) error {
		n := &netdir.Network{Name: "lab", Testing: netdir.DefaultTesting()}
		n.Authorities = []netdir.Authority{{Nickname: "a1", V3Ident: id(0), RSA: id(1), ORPorts: []netip.AddrPort{ap("192.0.2.1:9001")}}}
		change(n)
		_, err := Format(n)
		return err
	}
	authorities := func(many int) func(*netdir.Network) {
		return func(n *netdir.Network) {
			for i := 1; i < many; i++ {
				a := n.Authorities[0]
				a.V3Ident = id(i)
				n.Authorities = append(n.Authorities, a)
			}
		}
	}
	fallbacks := func(many int) func(*netdir.Network) {
		return func(n *netdir.Network) {
			for i := range many {
				n.Fallbacks = append(n.Fallbacks, netdir.Fallback{RSA: id(i), ORPorts: n.Authorities[0].ORPorts})
			}
		}
	}
	name := func(s string) func(*netdir.Network) { return func(n *netdir.Network) { n.Name = s } }
	nickname := func(s string) func(*netdir.Network) {
		return func(n *netdir.Network) { n.Authorities[0].Nickname = s }
	}
	ports := func(list ...netip.AddrPort) func(*netdir.Network) {
		return func(n *netdir.Network) { n.Authorities[0].ORPorts = list }
	}
	for _, c := range []struct {
		what   string
		change func(*netdir.Network)
		ok     bool
	}{
		{"as it is", func(*netdir.Network) {}, true},
		{"64 authorities", authorities(64), true},
		{"65 authorities", authorities(65), false},
		{"10000 fallbacks", fallbacks(10_000), true},
		{"10001 fallbacks", fallbacks(10_001), false},
		{"a name of 64", name(strings.Repeat("x", 64)), true},
		{"a name of 65", name(strings.Repeat("x", 65)), false},
		{"a name with each sign", name("azAZ09-_."), true},
		{"a name that begins with a sign", name("-x"), false},
		{"a name that begins with a dot", name("."), false},
		{"a name with a bad sign", name("x/y"), false},
		{"a name with a sign behind z", name("x{"), false},
		{"a name with a sign before A", name("x@"), false},
		{"a nickname of 19", nickname(strings.Repeat("z", 19)), true},
		{"a nickname of 20", nickname(strings.Repeat("z", 20)), false},
		{"no nickname", nickname(""), false},
		{"a nickname with each end", nickname("azAZ09"), true},
		{"no v3ident", func(n *netdir.Network) { authorities(2)(n); n.Authorities[1].V3Ident = ident.RSAID{} }, false},
		{"no rsa", func(n *netdir.Network) { authorities(2)(n); n.Authorities[1].RSA = ident.RSAID{} }, false},
		{"16 ports", ports(slices.Repeat([]netip.AddrPort{ap("192.0.2.1:1")}, 16)...), true},
		{"17 ports", ports(slices.Repeat([]netip.AddrPort{ap("192.0.2.1:1")}, 17)...), false},
		{"port 0", ports(ap("192.0.2.1:0")), false},
		{"no address", ports(ap("0.0.0.0:1")), false},
		{"a mapped address", ports(ap("[::ffff:192.0.2.1]:1")), false},
		{"a zone", ports(ap("[2001:db8::1%eth0]:1")), false},
		{"a fallback at no address", func(n *netdir.Network) {
			fallbacks(1)(n)
			n.Fallbacks[0].ORPorts = []netip.AddrPort{ap("0.0.0.0:1")}
		}, false},
	} {
		if err := make(func(n *netdir.Network) { n.Testing.AllowPrivateAddresses = true; c.change(n) }); (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Config) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{"[testing]\nvoting_interval = '10s'\n", true}, {"[testing]\nvoting_interval = '9s'\n", false},
		{"[testing]\nvoting_interval = '24h'\n", true}, {"[testing]\nvoting_interval = '24h1s'\n", false},
		{"[[fallback]]\nrsa = '" + fp1 + "'\norport = ['x:1']\n", false},
		{"[[fallback]]\nrsa = '" + fp1 + "'\ned25519 = 'x'\norport = ['192.0.2.1:1']\n", false},
	} {
		if _, err := Parse("f", []byte(minimal+c.text)); (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	if _, err := Parse("f", []byte(strings.Replace(minimal, "192.0.2.1:9030", "example.org:80", 1))); !fault.Is(err, fault.Config) {
		t.Errorf("a dirport with a name: %v", err)
	}
}

// broken is a network that cannot be written.
type broken struct{}

func (broken) MarshalText() ([]byte, error) { return nil, errors.New("broken") }

// TestOf: a network that is written can be read, and the error of one that cannot be written is told.
func TestOf(t *testing.T) {
	if n, err := Of(broken{}); err == nil || n != nil || err.Error() != "broken" {
		t.Errorf("%v, %v", n, err)
	}
}
