package netdoc

import (
	"bytes"
	"testing"
)

// seed adds documents under testdata to the corpus.
func seed(f *testing.F, names ...string) {
	for _, n := range names {
		f.Add(read(f, n))
	}
}

func FuzzConsensus(f *testing.F) {
	seed(f, "ctor/consensus-microdesc", "ctor/consensus-ns", "arti/live/consensus", "arti/bad-mdconsensus/bad-flags")
	f.Fuzz(func(t *testing.T, doc []byte) {
		c, err := ParseConsensus(doc, nil, nil)
		if err != nil {
			return
		}
		again, err := ParseConsensus(c.Append(nil), nil, nil)
		if err != nil {
			t.Fatalf("what was encoded does not parse: %v", err)
		}
		if !bytes.Equal(again.Append(nil), c.Append(nil)) {
			t.Fatal("encoding is not stable")
		}
	})
}

func FuzzAuthCert(f *testing.F) {
	seed(f, "ctor/certs", "arti/authcert1.txt", "arti/bad-certs/wrong-end")
	f.Fuzz(func(t *testing.T, doc []byte) {
		ParseAuthCerts(doc, func(c *AuthCert, err error) {
			if (c == nil) == (err == nil) {
				t.Fatal(c, err)
			}
		})
	})
}

func FuzzMicrodescs(f *testing.F) {
	seed(f, "ctor/microdescs", "arti/microdesc1.txt", "arti/microdesc2.txt", "arti/microdesc3.txt", "arti/microdesc4.txt", "arti/bad-mds/bogus-policy")
	f.Fuzz(func(t *testing.T, doc []byte) {
		in := new(Interner)
		ParseMicrodescs(doc, in, func(md *Microdesc, text []byte, err error) {
			if err != nil {
				return
			}
			if _, err := ParseMicrodesc(md.AppendMicrodesc(nil, nil), in); err != nil {
				t.Fatalf("what was encoded does not parse: %v", err)
			}
		})
	})
}

func FuzzDiff(f *testing.F) {
	from := read(f, "ctor/consensus-microdesc-old")
	seed(f, "ctor/diff", "arti/consdiff/diff1.txt")
	f.Add([]byte("network-status-diff-version 1\nhash EEC37F7D6D45AA460CC572F71358E437627148402CF679826F6900A16D890432 00\n3,$d\n1a\nx\n.\n"))
	f.Fuzz(func(t *testing.T, diff []byte) { ApplyDiff(from, diff) })
}

func FuzzPortPolicy(f *testing.F) {
	for _, s := range []string{"accept 80,443", "reject 1-65535", "accept 0", "reject 5-4", "accept 1-,2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePortPolicy(Args(s))
		if err != nil {
			return
		}
		q, err := ParsePortPolicy(Args(p.String()))
		if err != nil || q.String() != p.String() {
			t.Fatalf("%q: %v %v", s, q, err)
		}
		all := true
		for port := 1; port <= 65535; port++ {
			all = all && !p.AllowsPort(uint16(port))
		}
		if all != p.RejectsAll() {
			t.Fatalf("%q: RejectsAll %v", s, !all)
		}
	})
}
