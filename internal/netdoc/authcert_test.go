package netdoc

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// rsaKeys makes n keys of 1024 bits.
func rsaKeys(t testing.TB, n int) (out []*rsa.PrivateKey) {
	t.Helper()
	for range n {
		k, err := rsa.GenerateKey(rand.Reader, 1024)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, k)
	}
	return out
}

func authCert(t testing.TB, identity, signing *rsa.PrivateKey, published, expires time.Time) *AuthCert {
	t.Helper()
	c, err := MakeAuthCert(rand.Reader, identity, signing, netip.MustParseAddrPort("192.0.2.1:80"), published, expires)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A certificate needs the signature of the identity key over all that stands before it,
// and the signing key's signature over the identity. Each is replaced here, and the rest
// signed again.
func TestAuthCertProofs(t *testing.T) {
	k := rsaKeys(t, 4)
	identity, signing, otherIdentity, otherSigning := k[0], k[1], k[2], k[3]
	c := authCert(t, identity, signing, ctorTime, ctorTime.AddDate(1, 0, 0))
	sign := func(key *rsa.PrivateKey, digest []byte) []byte {
		sig, err := signRSA(rand.Reader, key, digest)
		if err != nil {
			t.Fatal(err)
		}
		return sig
	}
	const begin = "\ndir-key-crosscert\n"
	head := c.Text[:bytes.Index(c.Text, []byte(begin))+len(begin)]
	build := func(head []byte, cross []byte, crossType string, by *rsa.PrivateKey) []byte {
		b := AppendObject(bytes.Clone(head), crossType, cross)
		b = appendLine(b, "dir-key-certification")
		digest := sha1.Sum(b)
		return AppendObject(b, "SIGNATURE", sign(by, digest[:]))
	}
	id, otherID := RSADigest(&identity.PublicKey), RSADigest(&otherIdentity.PublicKey)
	good := sign(signing, id[:])
	replace := func(old, to string) []byte { return bytes.Replace(head, []byte(old), []byte(to), 1) }
	for _, x := range []struct {
		what string
		doc  []byte
		good bool
	}{
		{"nothing changed", build(head, good, "ID SIGNATURE", identity), true},
		{"the other name of the object", build(head, good, "SIGNATURE", identity), true},
		{"a signature of another identity key", build(head, good, "ID SIGNATURE", otherIdentity), false},
		{"a signature of the signing key", build(head, good, "ID SIGNATURE", signing), false},
		{"a crosscert of another signing key", build(head, sign(otherSigning, id[:]), "ID SIGNATURE", identity), false},
		{"a crosscert of another identity", build(head, sign(signing, otherID[:]), "ID SIGNATURE", identity), false},
		{"a crosscert by the identity key", build(head, sign(identity, id[:]), "ID SIGNATURE", identity), false},
		{"an empty crosscert", build(head, nil, "ID SIGNATURE", identity), false},
		{"another object", build(head, good, "RSA PUBLIC KEY", identity), false},
		{"another fingerprint", build(replace(id.String(), otherID.String()), good, "ID SIGNATURE", identity), false},
		{"expired before it was published", build(replace(ctorTime.AddDate(1, 0, 0).Format("dir-key-expires 2006"), ctorTime.AddDate(-1, 0, 0).Format("dir-key-expires 2006")), good, "ID SIGNATURE", identity), false},
		{"another version", build(replace("version 3", "version 2"), good, "ID SIGNATURE", identity), false},
		{"no crosscert", append(bytes.Clone(head[:len(head)-len(begin)+1]), c.Text[bytes.Index(c.Text, []byte("dir-key-certification\n")):]...), false},
	} {
		if _, err := ParseAuthCert(x.doc); (err == nil) != x.good {
			t.Errorf("%s: %v", x.what, err)
		}
	}
	for i := 0; i < len(head); i += 7 { // what is signed cannot be changed
		bad := bytes.Clone(c.Text)
		bad[i] ^= 1
		if _, err := ParseAuthCert(bad); err == nil {
			t.Errorf("offset %d: a changed certificate was accepted", i)
		}
	}
}

// A certificate ends with its signature: neither blank lines in what was given belong to
// it, nor anything behind that.
func TestAuthCertEnds(t *testing.T) {
	k := rsaKeys(t, 3)
	c := authCert(t, k[0], k[1], ctorTime, ctorTime.AddDate(1, 0, 0))
	for _, behind := range []string{"", " ", "\n", "\n\n\n", " \t\r\n", "r nick\n", strings.Repeat("\n", 1<<16), string(c.Text)} {
		all := append(bytes.Clone(c.Text), behind...)
		got, err := ParseAuthCert(all[:len(c.Text)])
		if err != nil || !bytes.Equal(got.Text, c.Text) || cap(got.Text) != len(c.Text) {
			t.Errorf("%.20q behind the end: %v", behind, err)
		}
		if strings.Trim(behind, "\n") == "" {
			if got, err = ParseAuthCert(all); err != nil || !bytes.Equal(got.Text, c.Text) {
				t.Errorf("%.20q inside: %v", behind, err)
			}
			continue
		}
		if _, err := ParseAuthCert(all); err == nil {
			t.Errorf("%.20q inside was accepted", behind)
		}
	}
	other := authCert(t, k[2], k[1], ctorTime, ctorTime.AddDate(1, 0, 0))
	n := 0
	ParseAuthCerts([]byte("\n\n"+string(c.Text)+"\n\n\n"+string(other.Text)+"\n"), func(got *AuthCert, err error) {
		if want := []*AuthCert{c, other}[n]; err != nil || !bytes.Equal(got.Text, want.Text) || got.Identity != want.Identity {
			t.Errorf("certificate %d: %v", n, err)
		}
		n++
	})
	if n != 2 {
		t.Errorf("%d certificates", n)
	}
}
