package netdoc

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"net/netip"
	"testing"
	"time"

	"filippo.io/edwards25519"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/protover"
)

// plainDesc is a descriptor with what every descriptor needs.
func plainDesc(t testing.TB) *RouterDesc {
	t.Helper()
	const proto = "Link=4-5 Relay=2-4"
	set, err := protover.Parse(proto)
	if err != nil {
		t.Fatal(err)
	}
	return &RouterDesc{Nickname: "me", Addr: netip.MustParseAddr("192.0.2.1"), ORPort: 9001, Proto: proto, Protocols: set, Published: ctorTime,
		Policy: ExitPolicy{{Ports: AllPorts}}}
}

// familyKey makes a family's key and a function that makes its certificates.
func familyKey(t testing.TB) (ident.Ed25519ID, func(of ident.Ed25519ID, expires time.Time) []byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := cert.IdentityOf(key)
	return id, func(of ident.Ed25519ID, expires time.Time) []byte {
		c := cert.Ed25519{Type: cert.FamilyVIdentity, Expires: expires, KeyType: cert.KeyEd25519, Key: of, Signer: id, HasSigner: true}
		return c.Encode(cert.SignerOf(key))
	}
}

// A descriptor is expired as soon as one of its certificates is: of the signing key, of
// the ntor key or of any of its families.
func TestDescriptorExpires(t *testing.T) {
	_, first := familyKey(t)
	_, second := familyKey(t)
	days := func(n int) time.Time { return ctorTime.Truncate(time.Hour).AddDate(0, 0, n) }
	for _, c := range []struct {
		what              string
		signing           int // days
		expires           time.Time
		firstDays, second int
	}{
		{what: "no family", signing: 20, expires: days(20)},
		{what: "families that last longer", signing: 20, firstDays: 21, second: 30, expires: days(20)},
		{what: "the first family", signing: 20, firstDays: 10, second: 30, expires: days(10)},
		{what: "the second family", signing: 20, firstDays: 30, second: 11, expires: days(11)},
		{what: "the ntor key", signing: 90, firstDays: 91, second: 92, expires: days(35)},
	} {
		keys, _ := testKeys(t, ctorTime, false)
		_, master, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys.Ed, keys.FamilyCerts = cert.IdentityOf(master), nil
		keys = NewDescKeys(*keys, cert.SignerOf(master), days(c.signing))
		if c.firstDays > 0 {
			keys.FamilyCerts = [][]byte{first(keys.Ed, days(c.firstDays)), second(keys.Ed, days(c.second))}
		}
		d, err := plainDesc(t).Sign(rand.Reader, keys, days(0))
		if err != nil {
			t.Fatal(c.what, err)
		}
		if !d.CertExpires.Equal(c.expires) {
			t.Errorf("%s: it expires at %v, not %v", c.what, d.CertExpires, c.expires)
		}
		if _, err := ParseRouterDesc(d.Text, c.expires); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if _, err := ParseRouterDesc(d.Text, c.expires.Add(time.Second)); err == nil {
			t.Errorf("%s: an expired descriptor was accepted", c.what)
		}
		if _, err := plainDesc(t).Sign(rand.Reader, keys, c.expires.Add(time.Second)); err == nil && c.what != "the ntor key" {
			t.Errorf("%s: a relay signs an expired descriptor", c.what)
		}
	}
}

// signAgain replaces a part of a descriptor, and signs the rest with the relay's keys.
func signAgain(t *testing.T, keys *DescKeys, text, old, to []byte) []byte {
	t.Helper()
	if bytes.Count(text, old) != 1 {
		t.Fatalf("%q occurs %d times", clip(old), bytes.Count(text, old))
	}
	text = bytes.Replace(text, old, to, 1)
	out, err := keys.sign(rand.Reader, text[:bytes.Index(text, []byte("router-sig-ed25519 ")):len(text)], routerSigPrefix)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Each proof in a descriptor counts: with another's in its place, and all the rest signed
// again, the descriptor is refused.
func TestDescriptorProofs(t *testing.T) {
	keys, _ := testKeys(t, ctorTime, true)
	other, _ := testKeys(t, ctorTime, true)
	_, member := familyKey(t)
	family := member(keys.Ed, ctorTime.AddDate(0, 1, 0))
	keys.FamilyCerts = [][]byte{family}
	d, err := plainDesc(t).Sign(rand.Reader, keys, ctorTime)
	if err != nil {
		t.Fatal(err)
	}
	object := func(keyword string) []byte { // as it stands in the descriptor
		s := NewScanner("test", d.Text)
		for it, ok := s.Next(); ok; it, ok = s.Next() {
			if it.Is(keyword) {
				return d.Text[it.LineEnd:it.End]
			}
		}
		t.Fatal("no ", keyword)
		return nil
	}
	ntorKey, _, err := cert.FromX25519(keys.NtorSecret)
	if err != nil {
		t.Fatal(err)
	}
	onion := func(key *rsa.PrivateKey, id ident.RSAID, ed ident.Ed25519ID) []byte {
		sig, err := signRSA(rand.Reader, key, append(id[:], ed[:]...))
		if err != nil {
			t.Fatal(err)
		}
		return AppendObject(nil, "CROSSCERT", sig)
	}
	ntor := func(typ cert.Type, ed ident.Ed25519ID) []byte {
		c := cert.Ed25519{Type: typ, Expires: ctorTime.AddDate(0, 1, 0), KeyType: cert.KeyEd25519, Key: ed}
		return AppendObject(nil, edCertObject, c.Encode(ntorKey.Sign))
	}
	me, otherID := RSADigest(&keys.Identity.PublicKey), RSADigest(&other.Identity.PublicKey)
	_, familyPrivate, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	nameless := cert.Ed25519{Type: cert.FamilyVIdentity, Expires: ctorTime.AddDate(0, 1, 0), KeyType: cert.KeyEd25519, Key: keys.Ed}
	wrongType := cert.Ed25519{Type: cert.IdentityVSigning, Expires: ctorTime.AddDate(0, 1, 0), KeyType: cert.KeyEd25519, Key: keys.Ed, Signer: cert.IdentityOf(familyPrivate), HasSigner: true}
	tampered := bytes.Clone(family)
	tampered[len(tampered)-1] ^= 1
	fam := func(b []byte) []byte { return AppendObject(nil, "FAMILY CERT", b) }
	for _, c := range []struct {
		what    string
		old, to []byte
		good    bool
	}{
		{"nothing", []byte("\nfamily-cert\n"), []byte("\nfamily-cert\n"), true},
		{"TAP key of another relay", object("onion-key-crosscert"), onion(keys.Onion, otherID, keys.Ed), false},
		{"TAP key of another Ed25519 identity", object("onion-key-crosscert"), onion(keys.Onion, me, other.Ed), false},
		{"TAP key that does not sign", object("onion-key-crosscert"), onion(other.Onion, me, keys.Ed), false},
		{"ntor key of another relay", object("ntor-onion-key-crosscert"), ntor(cert.NtorCCIdentity, other.Ed), false},
		{"ntor certificate of another type", object("ntor-onion-key-crosscert"), ntor(cert.IdentityVSigning, keys.Ed), false},
		{"the other sign of the ntor key", d.Text[bytes.Index(d.Text, []byte("\nntor-onion-key-crosscert ")):][:len("\nntor-onion-key-crosscert 0")], flip(d.Text), false},
		{"family certificate of another relay", object("family-cert"), fam(member(other.Ed, ctorTime.AddDate(0, 1, 0))), false},
		{"family certificate without the family's key", object("family-cert"), fam(nameless.Encode(cert.SignerOf(familyPrivate))), false},
		{"family certificate of another type", object("family-cert"), fam(wrongType.Encode(cert.SignerOf(familyPrivate))), false},
		{"family certificate with a wrong signature", object("family-cert"), fam(tampered), false},
		{"family certificate that has expired", object("family-cert"), fam(member(keys.Ed, ctorTime.Add(-time.Hour))), false},
	} {
		_, err := ParseRouterDesc(signAgain(t, keys, d.Text, c.old, c.to), ctorTime)
		if (err == nil) != c.good {
			t.Errorf("%s: %v", c.what, err)
		}
	}

	// The two signatures.
	for what, forger := range map[string]*DescKeys{
		"RSA":     {Identity: other.Identity, Signing: keys.Signing},
		"Ed25519": {Identity: keys.Identity, Signing: other.Signing},
	} {
		if _, err := ParseRouterDesc(signAgain(t, forger, d.Text, []byte("\nfamily-cert\n"), []byte("\nfamily-cert\n")), ctorTime); err == nil {
			t.Errorf("%s signature of another relay", what)
		}
	}
	// The signature covers all that stands before it.
	end := bytes.Index(d.Text, []byte("\nrouter-signature\n")) + len("\nrouter-signature\n")
	sum := sha1.Sum(d.Text[:end-1])
	sig, err := signRSA(rand.Reader, keys.Identity, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseRouterDesc(AppendObject(d.Text[:end:end], "SIGNATURE", sig), ctorTime); err == nil {
		t.Error("an RSA signature of another digest")
	}
	// Certificates must say whose they are: for the key of 32 zero bytes, everybody can make
	// signatures.
	anonymous := cert.Ed25519{Type: cert.FamilyVIdentity, KeyType: cert.KeyEd25519, Key: keys.Ed}
	bad := signAgain(t, keys, d.Text, object("family-cert"), fam(ofNoKey(t, anonymous)))
	if _, err := ParseRouterDesc(bad, ctorTime); err == nil {
		t.Error("a certificate of no family")
	}
	anonymous.Type, anonymous.Key = cert.IdentityVSigning, keys.Signing.Public()
	bad = signAgain(t, keys, d.Text, object("identity-ed25519"), AppendObject(nil, edCertObject, ofNoKey(t, anonymous)))
	bad = signAgain(t, keys, bad, []byte("\nmaster-key-ed25519 "+keys.Ed.String()), nil)
	bad = signAgain(t, keys, bad, object("ntor-onion-key-crosscert"), ntor(cert.NtorCCIdentity, ident.Ed25519ID{}))
	bad = signAgain(t, keys, bad, object("onion-key-crosscert"), onion(keys.Onion, me, ident.Ed25519ID{}))
	bad = signAgain(t, keys, bad, append([]byte("\nfamily-cert\n"), fam(family)...), []byte("\n"))
	if _, err := ParseRouterDesc(bad, ctorTime); err == nil {
		t.Error("a certificate of no identity")
	}
	// master-key-ed25519 names the same identity.
	bad = signAgain(t, keys, d.Text, []byte("\nmaster-key-ed25519 "+keys.Ed.String()), []byte("\nmaster-key-ed25519 "+other.Ed.String()))
	if _, err := ParseRouterDesc(bad, ctorTime); err == nil {
		t.Error("a certificate of another identity")
	}
}

// A descriptor ends with its signature. The digest does not cover blank lines behind it,
// and a cache would keep and serve them.
func TestDescriptorEnds(t *testing.T) {
	keys, _ := testKeys(t, ctorTime, false)
	d, err := plainDesc(t).Sign(rand.Reader, keys, ctorTime)
	if err != nil {
		t.Fatal(err)
	}
	for _, behind := range []string{"", "\n", "\n\n\n\n"} {
		got, err := ParseRouterDesc(append(bytes.Clone(d.Text), behind...), ctorTime)
		if err != nil || !bytes.Equal(got.Text, d.Text) || cap(got.Text) != len(d.Text) || got.Digest != d.Digest {
			t.Errorf("%q behind the end: %v", behind, err)
		}
	}
	if _, err := ParseRouterDesc(append(bytes.Clone(d.Text), " \n"...), ctorTime); err == nil {
		t.Error("a blank was accepted as a line")
	}
}

// flip returns the line with the other sign bit of the ntor key.
func flip(text []byte) []byte {
	i := bytes.Index(text, []byte("\nntor-onion-key-crosscert "))
	out := bytes.Clone(text[i : i+len("\nntor-onion-key-crosscert 0")])
	out[len(out)-1] ^= 1
	return out
}

// ofNoKey signs a certificate with the key of 32 zero bytes, a point of order 4: a quarter
// of all signatures of an even smaller set is right.
func ofNoKey(t *testing.T, c cert.Ed25519) []byte {
	t.Helper()
	a, err := new(edwards25519.Point).SetBytes(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 1000 {
		c.Expires = ctorTime.AddDate(0, 1, 0).Add(time.Duration(n) * time.Hour)
		right := false
		b := c.Encode(func(message []byte) []byte {
			r := edwards25519.NewIdentityPoint()
			for range 4 {
				sig := append(r.Bytes(), make([]byte, 32)...)
				if ed25519.Verify(make([]byte, 32), message, sig) {
					right = true
					return sig
				}
				r.Add(r, a)
			}
			return make([]byte, 64)
		})
		if right {
			return b
		}
	}
	t.Fatal("no signature found")
	return nil
}
