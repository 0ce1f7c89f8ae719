package channel

import (
	"crypto/rand"
	"crypto/rsa"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/cert"
)

// testRelay is a relay with all its private keys, so that tests can certify
// what they like.
type testRelay struct {
	*RelayKeys
	rsa               *rsa.PrivateKey
	identity, signing *cert.ExpandedKey
}

func newTestRelay() (*testRelay, error) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, cert.RSAIdentityBits)
	if err != nil {
		return nil, err
	}
	identity, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		return nil, err
	}
	signing, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	k, err := NewRelayIdentity(rsaKey, identity, signing, now.Add(30*24*time.Hour)).NewRelayKeys(rand.Reader, now)
	return &testRelay{k, rsaKey, identity, signing}, err
}

// Two relays, made once: RSA keys take their time.
var relayA, relayB = sync.OnceValues(newTestRelay), sync.OnceValues(newTestRelay)

func get(t testing.TB, relay func() (*testRelay, error)) *testRelay {
	t.Helper()
	r, err := relay()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func keys(t testing.TB) *RelayKeys      { return get(t, relayA).RelayKeys }
func otherKeys(t testing.TB) *RelayKeys { return get(t, relayB).RelayKeys }

// certs returns copies of the certificates that the relay sends in a role.
func (r *testRelay) certs(body []byte) cell.Certs {
	c, err := cell.ParseCerts(append([]byte(nil), body...))
	if err != nil {
		panic(err)
	}
	return c
}

// without returns certs without the one of a type.
func without(c cell.Certs, typ uint8) cell.Certs {
	var out cell.Certs
	for _, e := range c {
		if e.Type != typ {
			out = append(out, e)
		}
	}
	return out
}

// with returns certs with another one of a type.
func with(c cell.Certs, typ uint8, body []byte) cell.Certs {
	return append(without(c, typ), cell.Cert{Type: typ, Body: body})
}

// flip returns b with its last byte, the end of a signature, changed.
func flip(b []byte) []byte {
	b = append([]byte(nil), b...)
	b[len(b)-1] ^= 1
	return b
}

// badCert is a CERTS cell that must be refused with an error that contains want.
type badCert struct {
	certs cell.Certs
	want  string
}

// badCerts returns what either role must refuse of the other. good is a's CERTS
// body; last is the type of its last certificate (link or authentication), which
// certifies key of type keyType.
func badCerts(t *testing.T, good []byte, last uint8, lastType cert.Type, keyType cert.KeyType, key [32]byte) map[string]badCert {
	a, b := get(t, relayA), get(t, relayB)
	now := time.Now()
	certs := a.certs(good)
	body := func(typ uint8) []byte {
		c, ok := certs.Find(typ)
		if !ok {
			t.Fatalf("no certificate of type %d", typ)
		}
		return c
	}
	theirs := func(typ uint8) []byte {
		c, ok := b.certs(append([]byte(nil), b.responder...)).Find(typ)
		if !ok {
			t.Fatalf("no certificate of type %d", typ)
		}
		return c
	}
	ed := func(change func(*cert.Ed25519), by *cert.ExpandedKey) []byte {
		c := cert.Ed25519{Type: lastType, Expires: now.Add(time.Hour), KeyType: keyType, Key: key}
		change(&c)
		return c.Encode(by.Sign)
	}
	signing := func(c *cert.Ed25519) {
		c.Type, c.KeyType, c.Key = cert.IdentityVSigning, cert.KeyEd25519, a.signing.Public()
		c.Signer, c.HasSigner = a.identity.Public(), true
	}
	x509 := func(pub *rsa.PublicKey, by *rsa.PrivateKey, begin time.Time) []byte {
		der, err := (&cert.X509{Subject: "www.a.com", Issuer: "www.a.com", NotBefore: begin, NotAfter: begin.Add(time.Hour)}).Sign(rand.Reader, pub, by)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	cross := func(by *rsa.PrivateKey, id *cert.ExpandedKey, expires time.Time) []byte {
		c, err := cert.SignRSACross(by, id.Public(), expires)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	big, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	old := now.Add(-2 * time.Hour)
	return map[string]badCert{
		"none at all": {nil, "no certificate of type 4 (identity to signing key)"},
		"no type 2":   {without(certs, 2), "no certificate of type 2 (RSA identity)"},
		"no type 4":   {without(certs, 4), "no certificate of type 4 (identity to signing key)"},
		"no type 7":   {without(certs, 7), "no certificate of type 7 (RSA to Ed25519 identity)"},
		"no last":     {without(certs, last), "no certificate of type " + string('0'+rune(last))},

		"garbage as type 2": {with(certs, 2, []byte("garbage")), "type 2 (RSA identity)"},
		"garbage as type 4": {with(certs, 4, []byte("garbage")), "unknown version"},
		"garbage as type 7": {with(certs, 7, []byte("garbage")), "32 bytes wanted"},
		"garbage as last":   {with(certs, last, []byte("garbage")), "unknown version"},

		"flipped type 2": {with(certs, 2, flip(body(2))), "not signed by its own key"},
		"flipped type 4": {with(certs, 4, flip(body(4))), "type 4 (identity to signing key): Ed25519 certificate of type 4: the signature is wrong"},
		"flipped type 7": {with(certs, 7, flip(body(7))), "type 7 (RSA to Ed25519 identity): RSA cross-certificate: the signature is wrong"},
		"flipped last":   {with(certs, last, flip(body(last))), "the signature is wrong"},

		"another relay's type 2": {with(certs, 2, theirs(2)), "type 7 (RSA to Ed25519 identity): RSA cross-certificate: the signature is wrong"},
		"another relay's type 4": {with(certs, 4, theirs(4)), "type 7 (RSA to Ed25519 identity): it is for another Ed25519 identity"},
		"another relay's type 7": {with(certs, 7, theirs(7)), "RSA cross-certificate: the signature is wrong"},
		"another identity in type 7": {with(certs, 7, cross(a.rsa, b.identity, now.Add(time.Hour))),
			"it is for another Ed25519 identity"},
		"last by another relay": {with(certs, last, ed(func(*cert.Ed25519) {}, b.signing)), "the signature is wrong"},
		"last by the identity":  {with(certs, last, ed(func(*cert.Ed25519) {}, a.identity)), "the signature is wrong"},
		"last names another signer": {with(certs, last, ed(func(c *cert.Ed25519) { c.Signer, c.HasSigner = b.signing.Public(), true }, b.signing)),
			"names another signing key"},

		"expired type 2": {with(certs, 2, x509(&a.rsa.PublicKey, a.rsa, now.Add(-72*time.Hour))), "type 2 (RSA identity): RSA identity certificate: certificate has expired"},
		"early type 2":   {with(certs, 2, x509(&a.rsa.PublicKey, a.rsa, now.Add(31*24*time.Hour))), "not valid yet"},
		"expired type 4": {with(certs, 4, ed(func(c *cert.Ed25519) { signing(c); c.Expires = old }, a.identity)), "type 4 (identity to signing key): Ed25519 certificate of type 4: certificate has expired"},
		"expired type 7": {with(certs, 7, cross(a.rsa, a.identity, old)), "RSA cross-certificate: certificate has expired"},
		"expired last":   {with(certs, last, ed(func(c *cert.Ed25519) { c.Expires = old }, a.signing)), "certificate has expired"},

		"type 2 with 2048 bits":  {with(certs, 2, x509(&big.PublicKey, big, now)), "key of 2048 bits"},
		"type 2 by another key":  {with(certs, 2, x509(&a.rsa.PublicKey, big, now)), "not signed by its own key"},
		"type 4 lacks identity":  {with(certs, 4, ed(func(c *cert.Ed25519) { signing(c); c.HasSigner = false }, a.identity)), "does not include the identity key"},
		"type 4 of another type": {with(certs, 4, ed(func(c *cert.Ed25519) { signing(c); c.Type = cert.FamilyVIdentity }, a.identity)), "of type 12, not 4"},
		"type 4 of another key":  {with(certs, 4, ed(func(c *cert.Ed25519) { signing(c); c.KeyType = cert.KeySHA256OfRSA }, a.identity)), "key of type 2, not 1"},
		"last of another type":   {with(certs, last, ed(func(c *cert.Ed25519) { c.Type = cert.BlindedVSigning }, a.signing)), "of type 8, not"},
		"last of another key":    {with(certs, last, ed(func(c *cert.Ed25519) { c.KeyType = cert.KeySHA256OfRSA }, a.signing)), "key of type 2, not"},
		"unknown extension":      {with(certs, last, ed(func(c *cert.Ed25519) { c.Exts = []cert.Ext{{Type: 77, Flags: 1}} }, a.signing)), "type 77 affects validation"},
		"two of a type":          {append(without(certs, 0), cell.Cert{Type: 4, Body: body(4)}), "two certificates of type 4"},
		"signing key of another": {with(certs, 4, ed(func(c *cert.Ed25519) { signing(c); c.Key = b.signing.Public() }, a.identity)), "the signature is wrong"},
		"trailing bytes, type 7": {with(certs, 7, append(append([]byte(nil), body(7)...), 0)), "left over"},
		"trailing bytes, type 4": {with(certs, 4, append(append([]byte(nil), body(4)...), 0)), "left over"},
		"truncated last":         {with(certs, last, body(last)[:50]), "wanted"},
	}
}
