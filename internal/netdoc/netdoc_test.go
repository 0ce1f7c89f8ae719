package netdoc

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// certsOf reads certificates, all of which must be good.
func certsOf(t testing.TB, name string) map[KeyPair]*AuthCert {
	t.Helper()
	m := map[KeyPair]*AuthCert{}
	ParseAuthCerts(read(t, name), func(c *AuthCert, err error) {
		if err != nil {
			t.Fatal(err)
		}
		m[c.KeyPair()] = c
	})
	return m
}

func identsOf(m map[KeyPair]*AuthCert) []ident.RSAID {
	var ids []ident.RSAID
	for kp := range m {
		ids = append(ids, kp.Identity)
	}
	return ids
}

// networks are real documents: of a network of C tor 0.4.9.11 that was run for
// this test, of Arti's chutney runs.
var networks = []struct {
	dir, certs, consensus string
	n                     int
}{
	{"ctor", "certs", "consensus-microdesc", 10},
	{"ctor", "certs", "consensus-microdesc-old", 10},
	{"ctor", "certs", "consensus-ns", 10},
	{"arti/chutney", "cached-certs", "cached-microdesc-consensus", 7},
	{"arti/chutney", "cached-certs", "cached-consensus", 7},
	{"arti", "authcerts2.txt", "mdconsensus1.txt", 6},
}

func TestRealConsensuses(t *testing.T) {
	for _, n := range networks {
		t.Run(n.dir+"/"+n.consensus, func(t *testing.T) {
			doc := read(t, filepath.Join(n.dir, n.consensus))
			certs := certsOf(t, filepath.Join(n.dir, n.certs))
			c, err := ParseConsensus(doc, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Routers) != n.n {
				t.Errorf("%d relays, not %d", len(c.Routers), n.n)
			}
			get := func(kp KeyPair) *AuthCert { return certs[kp] }
			v := c.Verify(identsOf(certs), get, c.ValidAfter)
			if v.Err() != nil || len(v.Valid) != len(certs) || len(v.Bad)+len(v.Missing) > 0 {
				t.Errorf("%+v", v)
			}
			if v := c.Verify(identsOf(certs), get, c.ValidAfter.AddDate(20, 0, 0)); v.OK() || len(v.Missing) != len(certs) {
				t.Errorf("expired certificates: %+v", v)
			}
			if v := c.Verify(identsOf(certs), func(KeyPair) *AuthCert { return nil }, c.ValidAfter); v.OK() || len(v.Missing) != len(certs) {
				t.Errorf("no certificates: %+v", v)
			}
			if v := c.Verify([]ident.RSAID{{1}, {2}, {3}}, get, c.ValidAfter); v.OK() {
				t.Errorf("strangers: %+v", v)
			}
			n := 0
			if _, err := ParseConsensus(doc, new(Interner), func(rs *RouterStatus) error { n++; return nil }); err != nil || n != len(c.Routers) {
				t.Errorf("with a visitor: %d, %v", n, err)
			}
		})
	}
}

// What C tor 0.4.9 wrote, Chive writes byte for byte.
func TestConsensusRoundTrip(t *testing.T) {
	for _, name := range []string{"ctor/consensus-microdesc", "ctor/consensus-ns", "ctor15/consensus-microdesc", "ctor15/consensus-ns"} {
		doc := read(t, name)
		c, err := ParseConsensus(doc, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Append(nil); !bytes.Equal(got, doc) {
			diffAt(t, name, got, doc)
		}
	}
}

func diffAt(t *testing.T, name string, got, want []byte) {
	t.Helper()
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	lo := max(0, i-60)
	t.Errorf("%s: differs at %d:\n got %q\nwant %q", name, i, got[lo:min(len(got), i+80)], want[lo:min(len(want), i+80)])
}

// Each flipped bit of a signed document must cost it its signatures or its
// form.
func TestConsensusTampered(t *testing.T) {
	doc := read(t, "ctor/consensus-microdesc")
	certs := certsOf(t, "ctor/certs")
	for i := 0; i < len(doc); i += 97 {
		bad := bytes.Clone(doc)
		bad[i] ^= 1
		c, err := ParseConsensus(bad, nil, nil)
		if err != nil {
			if !fault.Is(err, fault.Directory) {
				t.Fatalf("offset %d: kind %v of %v", i, fault.KindOf(err), err)
			}
			continue
		}
		v := c.Verify(identsOf(certs), func(kp KeyPair) *AuthCert { return certs[kp] }, c.ValidAfter)
		if len(v.Valid) == len(certs) {
			t.Errorf("offset %d: a changed document is signed by all", i)
		}
	}
	for _, n := range []int{0, 1, 100, len(doc) / 2, len(doc) - 1} {
		if c, err := ParseConsensus(doc[:n], nil, nil); err == nil {
			t.Errorf("truncated to %d: %d relays", n, len(c.Routers))
		}
	}
}

func TestLiveConsensus(t *testing.T) {
	c, err := ParseConsensus(read(t, "arti/live/consensus-microdesc"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Method != 35 || c.SharedRandCurrent == nil || c.SharedRandCurrent.Reveals != 9 || len(c.Sources) != 9 || len(c.Signatures) != 9 {
		t.Errorf("%+v", c.Preamble)
	}
	if v := c.Params.Get("cc_cwnd_min", 1, 0, 1000); v != 124 {
		t.Errorf("cc_cwnd_min %d", v)
	}
	if v := c.Params.Get("cc_cwnd_min", 1, 0, 100); v != 100 {
		t.Errorf("clamped cc_cwnd_min %d", v)
	}
	if c.FreshUntil != time.Date(2026, 7, 27, 11, 0, 0, 0, time.UTC) {
		t.Errorf("%v", c.FreshUntil)
	}
	if _, ok := c.BandwidthWeights.Lookup("Wgg"); !ok {
		t.Error("no Wgg")
	}
}

// Arti's documents that must be refused, each for the reason in its name.
func TestRefused(t *testing.T) {
	parsers := map[string]func([]byte) error{
		"bad-certs":       func(b []byte) error { _, err := ParseAuthCert(b); return err },
		"bad-mdconsensus": func(b []byte) error { _, err := ParseConsensus(b, nil, nil); return err },
		"bad-mds":         func(b []byte) error { _, err := ParseMicrodesc(b, nil); return err },
	}
	for dir, parse := range parsers {
		files, err := os.ReadDir(filepath.Join("testdata/arti", dir))
		if err != nil || len(files) == 0 {
			t.Fatal(err, dir)
		}
		for _, f := range files {
			if f.Name() == "wrong-id" { // an unknown kind of identity: C tor passes over it, and so do we
				continue
			}
			err := parse(read(t, filepath.Join("arti", dir, f.Name())))
			if err == nil {
				t.Errorf("%s/%s was accepted", dir, f.Name())
			} else {
				t.Logf("%s/%s: %v", dir, f.Name(), err)
			}
		}
	}
}

func TestRealMicrodescs(t *testing.T) {
	c, err := ParseConsensus(read(t, "ctor/consensus-microdesc"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := new(Interner)
	byDigest := map[[32]byte]*Microdesc{}
	ParseMicrodescs(read(t, "ctor/microdescs"), in, func(md *Microdesc, text []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		byDigest[md.Digest] = md
	})
	byName := map[string]*Microdesc{}
	ids := map[string]ident.RSAID{}
	for _, r := range c.Routers {
		if byDigest[r.Microdesc] == nil {
			t.Errorf("%s: no microdescriptor", r.Nickname)
		}
		byName[r.Nickname], ids[r.Nickname] = byDigest[r.Microdesc], r.RSA
	}
	if t.Failed() {
		t.FailNow()
	}
	if !byName["r1"].Family.Lists(ids["r2"], "r2") || !byName["r2"].Family.Lists(ids["r1"], "r1") || byName["r1"].Family.Lists(ids["r3"], "r3") {
		t.Error("the family of r1 and r2")
	}
	if byName["r1"].Family != byName["r2"].Family {
		t.Error("one family, two copies")
	}
	if !byName["r3"].Family.SharesID(byName["r4"].Family) || byName["r3"].Family.SharesID(byName["r1"].Family) || byName["r5"].Family != nil {
		t.Error("the family key of r3 and r4")
	}
	if p := byName["e2"].Policy4; !p.AllowsPort(443) || p.AllowsPort(22) || p.String() != "accept 80,443" {
		t.Error(p)
	}
	if !byName["e2"].Policy6.AllowsPort(80) || byName["r1"].Policy4.AllowsPort(80) || !byName["r1"].Policy4.RejectsAll() {
		t.Error("policies of e2 and r1")
	}
}

func TestMicrodescRoundTrip(t *testing.T) {
	for _, name := range []string{"ctor/microdescs", "ctor15/microdescs", "arti/chutney/cached-microdescs.new"} {
		n := 0
		ParseMicrodescs(read(t, name), nil, func(md *Microdesc, text []byte, err error) {
			if err != nil {
				t.Fatal(err)
			}
			s := NewScanner("", text)
			it, _ := s.Next()
			var key []byte
			if it.ObjType != nil {
				if key, err = it.Object(); err != nil {
					t.Fatal(err)
				}
			}
			want := md.Digest
			if got := md.AppendMicrodesc(nil, key); !bytes.Equal(got, text) || md.Digest != want {
				diffAt(t, name, got, text)
			}
			n++
		})
		if n < 7 {
			t.Errorf("%s: %d microdescriptors", name, n)
		}
	}
}

func TestDiffs(t *testing.T) {
	for _, f := range [][3]string{
		{"ctor/consensus-microdesc-old", "ctor/diff", "ctor/consensus-microdesc"},
		{"ctor15/consensus-microdesc-old", "ctor15/diff-microdesc", "ctor15/consensus-microdesc"},
		{"ctor15/consensus-ns-old", "ctor15/diff-ns", "ctor15/consensus-ns"},
		{"arti/consdiff/consensus1.txt", "arti/consdiff/diff1.txt", "arti/consdiff/consensus2.txt"},
	} {
		from, diff, to := read(t, f[0]), read(t, f[1]), read(t, f[2])
		got, err := ApplyDiff(from, diff)
		if err != nil || !bytes.Equal(got, to) {
			t.Errorf("%s: %v", f[1], err)
		}
		if _, err := ApplyDiff(to, diff); err == nil {
			t.Errorf("%s was applied to another consensus", f[1])
		}
		if !IsDiff(diff) || IsDiff(from) {
			t.Error("IsDiff")
		}
		for i := 200; i < len(diff); i += 31 {
			bad := bytes.Clone(diff)
			bad[i] ^= 1
			if got, err := ApplyDiff(from, bad); err == nil && !bytes.Equal(got, to) {
				t.Errorf("offset %d: a changed diff was applied", i)
			}
		}
	}
}

// ParseMicrodescs reads a concatenation of microdescriptors and calls each for
// every one: with its text if it is valid, or else with an error.
func ParseMicrodescs(b []byte, in *Interner, each func(md *Microdesc, text []byte, err error)) {
	for one := range SplitMicrodescs(b) {
		md, err := ParseMicrodesc(one, in)
		each(md, one, err)
	}
}
