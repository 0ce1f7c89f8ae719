package netdoc

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha512"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/ident"
)

// signers are authorities with two signing keys each.
type signers struct {
	ids   []ident.RSAID
	keys  [][2]*rsa.PrivateKey
	certs map[KeyPair]*AuthCert
}

func newSigners(t testing.TB, n int) *signers {
	t.Helper()
	s := &signers{certs: map[KeyPair]*AuthCert{}}
	for range n {
		k := rsaKeys(t, 3)
		s.ids = append(s.ids, RSADigest(&k[0].PublicKey))
		s.keys = append(s.keys, [2]*rsa.PrivateKey{k[1], k[2]})
		for i, signing := range k[1:] { // the second certificate has expired at ctorTime + 2 days
			c := authCert(t, k[0], signing, ctorTime.AddDate(-1, 0, 0), ctorTime.AddDate(1-i, 0, 2))
			s.certs[c.KeyPair()] = c
		}
	}
	return s
}

// unsigned parses one of C tor's consensuses and drops its signatures.
func unsigned(t testing.TB, f Flavor) *Consensus {
	t.Helper()
	c, err := ParseConsensus(read(t, "ctor/consensus-"+f.String()), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Signatures = nil
	return c
}

// again writes the consensus and reads it.
func again(t testing.TB, c *Consensus) *Consensus {
	t.Helper()
	out, err := ParseConsensus(c.Append(nil), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A consensus needs valid signatures of more than half of the trusted authorities, and
// each counts once, however often and with however many keys it signs.
func TestMajority(t *testing.T) {
	s := newSigners(t, 6)
	for _, f := range []Flavor{FlavorNS, FlavorMicrodesc} {
		for _, x := range []struct {
			what    string
			trusted int
			by      string // authorities; in capitals with the second key; "x" after it: damaged
			later   int    // days
			valid   int
			ok      bool
		}{
			{"one of one", 1, "a", 0, 1, true},
			{"none of one", 1, "", 0, 0, false},
			{"one of two", 2, "a", 0, 1, false},
			{"two of two", 2, "ab", 0, 2, true},
			{"two of three", 3, "ac", 0, 2, true},
			{"half of four", 4, "ab", 0, 2, false},
			{"three of four", 4, "abd", 0, 3, true},
			{"half of six", 6, "abc", 0, 3, false},
			{"four of six", 6, "abcd", 0, 4, true},
			{"one of three twice", 3, "aa", 0, 1, false},
			{"one of three with both keys", 3, "aA", 0, 1, false},
			{"one of four thrice, and another", 4, "aaAb", 0, 2, false},
			{"a damaged one beside a good one", 3, "axAb", 0, 2, true},
			{"a good one before a damaged one", 3, "aAxb", 0, 2, true},
			{"damaged ones", 3, "axbx", 0, 0, false},
			{"strangers", 3, "adef", 0, 1, false},
			{"an expired certificate", 3, "aB", 3, 1, false},
			{"an expired one and a good one", 3, "aBb", 3, 2, true},
			{"all have expired", 3, "ABC", 3, 0, false},
		} {
			c := unsigned(t, f)
			for _, r := range x.by {
				if r == 'x' {
					c.Signatures[len(c.Signatures)-1].Sig[5] ^= 1
					continue
				}
				i, key := strings.IndexRune("abcdef", r), 0
				if i < 0 {
					i, key = strings.IndexRune("ABCDEF", r), 1
				}
				if err := c.Sign(rand.Reader, s.ids[i], s.keys[i][key]); err != nil {
					t.Fatal(err)
				}
			}
			if x.by != "" {
				c = again(t, c)
			}
			v := c.Verify(s.ids[:x.trusted], func(k KeyPair) *AuthCert { return s.certs[k] }, ctorTime.AddDate(0, 0, x.later))
			if len(v.Valid) != x.valid || v.OK() != x.ok || (v.Err() == nil) != x.ok {
				t.Errorf("%v: %s: %d valid, %v", f, x.what, len(v.Valid), v.Err())
			}
		}
	}
}

// otherDigests are names of digests with which no consensus is signed. C tor's arrays had
// no place for them, and it wrote past their ends.
var otherDigests = []string{"sha512", "sha3-256", "sha3-512", "SHA256", "sha-256", "md5", "sha1x", "x"}

// Signatures with an unexpected kind of digest count for nothing, and those beside them
// count.
func TestUnexpectedDigests(t *testing.T) {
	s := newSigners(t, 3)
	for _, f := range []Flavor{FlavorNS, FlavorMicrodesc} {
		for _, alg := range otherDigests {
			c := unsigned(t, f)
			sum := sha512.Sum512([]byte("x"))
			for i := range 2 { // a majority, if they counted
				if err := c.Sign(rand.Reader, s.ids[i], s.keys[i][0]); err != nil {
					t.Fatal(err)
				}
				sig := &c.Signatures[i]
				sig.Algorithm = alg
				if alg == "sha512" {
					var err error
					if sig.Sig, err = signRSA(rand.Reader, s.keys[i][0], sum[:]); err != nil {
						t.Fatal(err)
					}
				}
			}
			first := again(t, c)
			if v := first.Verify(s.ids, func(k KeyPair) *AuthCert { return s.certs[k] }, ctorTime); len(v.Valid) != 0 || len(first.Signatures) != 0 {
				t.Errorf("%v: %s: %d signatures count, %d are kept", f, alg, len(v.Valid), len(first.Signatures))
			}
			for i := range 2 {
				if err := c.Sign(rand.Reader, s.ids[i], s.keys[i][0]); err != nil {
					t.Fatal(err)
				}
			}
			if v := again(t, c).Verify(s.ids, func(k KeyPair) *AuthCert { return s.certs[k] }, ctorTime); v.Err() != nil {
				t.Errorf("%v: good ones after %s: %v", f, alg, v.Err())
			}
		}
	}
}

// The same holds for detached signatures, and for the digests that they come with.
func TestUnexpectedDetachedDigests(t *testing.T) {
	s := newSigners(t, 2)
	ns, micro := unsigned(t, FlavorNS), unsigned(t, FlavorMicrodesc)
	for i := range 2 {
		for _, c := range []*Consensus{ns, micro} {
			if err := c.Sign(rand.Reader, s.ids[i], s.keys[i][0]); err != nil {
				t.Fatal(err)
			}
		}
	}
	good := Detach(ns, micro)
	for _, alg := range otherDigests {
		text := good.Append(nil)
		for _, length := range []int{0, 20, 32, 33, 64} { // of the digest
			digest := strings.Repeat("AB", length)
			text = bytes.Replace(text, []byte("additional-digest "), fmt.Appendf(nil, "additional-digest microdesc %s %s\nadditional-digest ", alg, digest), 1)
		}
		text = bytes.ReplaceAll(text, []byte("additional-signature microdesc sha256 "+s.ids[0].String()), []byte("additional-signature microdesc "+alg+" "+s.ids[0].String()))
		text = bytes.ReplaceAll(text, []byte("directory-signature "+s.ids[0].String()), []byte("directory-signature "+alg+" "+s.ids[0].String()))
		d, err := ParseDetachedSignatures(text)
		if err != nil {
			t.Fatal(alg, err)
		}
		if len(d.Flavors) != 1 || len(d.Signatures) != 2 || slices.ContainsFunc(d.Signatures, func(x FlavorSignature) bool { return x.Identity != s.ids[1] }) {
			t.Errorf("%s: %d digests, %d signatures", alg, len(d.Flavors), len(d.Signatures))
		}
		for _, x := range d.Signatures {
			if err := d.Check(x, s.certs[x.KeyPair]); err != nil {
				t.Errorf("%s: %v", alg, err)
			}
		}
		// Those that did not come from the parser are refused, too.
		for _, x := range good.Signatures {
			x.Algorithm = alg
			if good.Check(x, s.certs[x.KeyPair]) == nil {
				t.Errorf("%s: a detached signature of the %s flavor counts", alg, x.Flavor)
			}
			for _, c := range []*Consensus{ns, micro} {
				if c.CheckSignature(&x.Signature, s.certs[x.KeyPair]) == nil {
					t.Errorf("%s: a signature of the %s flavor counts for %v", alg, x.Flavor, c.Flavor)
				}
			}
		}
	}
	// A digest that is too short or too long is malformed.
	for _, bad := range []string{"", "AB", strings.Repeat("AB", 20), strings.Repeat("AB", 33), strings.Repeat("XY", 32)} {
		text := bytes.Replace(good.Append(nil), []byte("additional-digest "), []byte("additional-digest microdesc sha256 "+bad+"\nadditional-digest "), 1)
		if _, err := ParseDetachedSignatures(text); err == nil {
			t.Errorf("digest %q was accepted", bad)
		}
	}
}
