package netdoc

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"io"
	"math"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// AuthCert is an authority key certificate (dir-spec, "creating key certificates"):
// the authority's identity key certifies a signing key.
type AuthCert struct {
	Identity    ident.RSAID    // the v3 identity
	Signing     ident.RSAID    // digest of the signing key
	Address     netip.AddrPort // the directory port; invalid when absent
	Published   time.Time
	Expires     time.Time
	IdentityKey *rsa.PublicKey
	SigningKey  *rsa.PublicKey
	Text        []byte // the document
}

// KeyPair returns the name of the certificate.
func (c *AuthCert) KeyPair() KeyPair { return KeyPair{c.Identity, c.Signing} }

// CheckTime returns an error if the certificate has expired. Like C tor, it accepts
// a certificate from the future: a wrong clock is more likely than a misused
// identity key of an authority.
func (c *AuthCert) CheckTime(now time.Time) error {
	if now.After(c.Expires) {
		return fault.New(fault.Directory, "authority certificate: it expired at %s", c.Expires.Format(TimeFormat))
	}
	return nil
}

// Replaces reports whether c is to be kept in the place of old, which has the same name
// and may be nil: an authority may prolong a certificate and keep its signing key.
func (c *AuthCert) Replaces(old *AuthCert) bool { return old == nil || c.Expires.After(old.Expires) }

const certStart = "dir-key-certificate-version"

// ParseAuthCerts reads a list of certificates and calls each for every valid one
// with a nil error, and for every invalid one with its error. Text before the first
// certificate, such as C tor's annotations, is ignored.
func ParseAuthCerts(b []byte, each func(*AuthCert, error)) {
	for _, one := range splitDocs(b, certStart) {
		each(ParseAuthCert(one))
	}
}

// splitDocs splits a concatenation of documents before every line that begins with
// the keyword.
func splitDocs(b []byte, first string) [][]byte { return splitSome(b, first, math.MaxInt) }

// splitSome is splitDocs with a limit: it returns at most most documents, and the
// last one then has all the text after its beginning.
func splitSome(b []byte, first string, most int) [][]byte {
	var docs [][]byte
	start := -1
	for off := 0; off < len(b) && len(docs) < most-1; {
		if bytes.HasPrefix(b[off:], []byte(first)) && (off+len(first) == len(b) || b[off+len(first)] == ' ' || b[off+len(first)] == '\n') {
			if start >= 0 {
				docs = append(docs, b[start:off:off])
			}
			start = off
		}
		n := bytes.IndexByte(b[off:], '\n')
		if n < 0 {
			break
		}
		off += n + 1
	}
	if start >= 0 {
		docs = append(docs, b[start:])
	}
	return docs
}

// ParseAuthCert reads one certificate and checks its fingerprint, its
// cross-certification and its signature.
func ParseAuthCert(doc []byte) (*AuthCert, error) {
	c := &AuthCert{Text: bytes.Clone(doc)}
	var seen seen
	var fingerprint ident.RSAID
	s := NewScanner("authority certificate", c.Text)
	for it, ok := s.Next(); ok; it, ok = s.Next() {
		if (it.Start == 0) != it.Is(certStart) {
			return nil, s.Fail("%s must come first", certStart)
		}
		if seen["dir-key-certification"] {
			return nil, s.Fail("after the signature")
		}
		if err := c.parseItem(it, &seen, &fingerprint); err != nil {
			return nil, s.Fail("%w", err)
		}
	}
	if s.Err() != nil {
		return nil, s.Err()
	}
	err := seen.require("authority certificate", certStart, "fingerprint", "dir-identity-key", "dir-key-published", "dir-key-expires", "dir-signing-key", "dir-key-crosscert", "dir-key-certification")
	if err != nil {
		return nil, err
	}
	if fingerprint != c.Identity {
		return nil, fault.New(fault.Directory, "authority certificate: the fingerprint is not the identity key's")
	}
	if !c.Published.Before(c.Expires) {
		return nil, fault.New(fault.Directory, "authority certificate: it expires before it is published")
	}
	return c, nil
}

func (c *AuthCert) parseItem(it *Item, seen *seen, fingerprint *ident.RSAID) (err error) {
	a := it.Args
	switch string(it.Keyword) {
	case certStart, "dir-address", "fingerprint", "dir-identity-key", "dir-key-published", "dir-key-expires", "dir-signing-key", "dir-key-crosscert", "dir-key-certification":
		if err := seen.once(it.Keyword); err != nil {
			return err
		}
	}
	switch string(it.Keyword) {
	case certStart:
		if v, _ := a.Next(); string(v) != "3" {
			return fault.New(fault.Directory, "version %q, not 3", clip(v))
		}
	case "dir-address":
		c.Address, err = a.addrPort()
	case "fingerprint":
		err = a.hex("fingerprint", fingerprint[:])
	case "dir-identity-key":
		c.IdentityKey, c.Identity, err = parseRSAKey(it, 1024)
	case "dir-signing-key":
		c.SigningKey, c.Signing, err = parseRSAKey(it, 1024)
	case "dir-key-published":
		c.Published, err = a.time()
	case "dir-key-expires":
		c.Expires, err = a.time()
	case "dir-key-crosscert":
		return c.checkCross(it)
	case "dir-key-certification":
		return c.checkSignature(it)
	}
	return err
}

// checkCross checks the signing key's signature over the identity's digest.
func (c *AuthCert) checkCross(it *Item) error {
	if c.SigningKey == nil || c.IdentityKey == nil {
		return fault.New(fault.Directory, "it comes before the keys")
	}
	sig, err := it.Object("ID SIGNATURE", "SIGNATURE")
	if err != nil {
		return err
	}
	return verifyRSA(c.SigningKey, c.Identity[:], sig)
}

// checkSignature checks the identity key's signature over the document.
func (c *AuthCert) checkSignature(it *Item) error {
	if c.IdentityKey == nil {
		return fault.New(fault.Directory, "it comes before the identity key")
	}
	sig, err := it.Object("SIGNATURE")
	if err != nil {
		return err
	}
	digest := sha1.Sum(c.Text[:it.LineEnd])
	c.Text = c.Text[:it.End:it.End] // blank lines may follow in what was given
	return verifyRSA(c.IdentityKey, digest[:], sig)
}

// MakeAuthCert makes a certificate, valid from published until expires, with which
// the identity key certifies the signing key.
func MakeAuthCert(rand io.Reader, identity, signing *rsa.PrivateKey, address netip.AddrPort, published, expires time.Time) (*AuthCert, error) {
	id := RSADigest(&identity.PublicKey)
	b := appendLine(nil, certStart, "3")
	if address.IsValid() {
		b = appendLine(b, "dir-address", address.String())
	}
	b = appendLine(b, "fingerprint", id.String())
	b = append(appendTime(append(b, "dir-key-published "...), published), '\n')
	b = append(appendTime(append(b, "dir-key-expires "...), expires), '\n')
	b = AppendObject(appendLine(b, "dir-identity-key"), rsaKeyObject, x509.MarshalPKCS1PublicKey(&identity.PublicKey))
	b = AppendObject(appendLine(b, "dir-signing-key"), rsaKeyObject, x509.MarshalPKCS1PublicKey(&signing.PublicKey))
	cross, err := signRSA(rand, signing, id[:])
	if err != nil {
		return nil, err
	}
	b = AppendObject(appendLine(b, "dir-key-crosscert"), "ID SIGNATURE", cross)
	b = appendLine(b, "dir-key-certification")
	digest := sha1.Sum(b)
	sig, err := signRSA(rand, identity, digest[:])
	if err != nil {
		return nil, err
	}
	return ParseAuthCert(AppendObject(b, "SIGNATURE", sig))
}
