package cert

import (
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base32"
	"encoding/binary"
	"io"
	"math/big"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// RSAIdentityBits is the size of every relay's RSA identity key.
const RSAIdentityBits = 1024

// How far a clock may be off for an X.509 certificate, as in C tor. The times of
// these certificates are midnights and not precise.
const (
	pastSlop   = 2 * 24 * time.Hour
	futureSlop = 30 * 24 * time.Hour
)

// RSAIdentity is a checked self-signed certificate of an RSA identity key.
type RSAIdentity struct {
	ID        ident.RSAID // SHA-1 of the key
	SHA256    [32]byte    // SHA-256 of the key, as in AUTHENTICATE
	Key       *rsa.PublicKey
	NotBefore time.Time
	NotAfter  time.Time
}

// RSAKeyID returns the SHA-1 and the SHA-256 of an RSA public key in PKCS #1 form,
// which identify it.
func RSAKeyID(key *rsa.PublicKey) (ident.RSAID, [32]byte) {
	der := x509.MarshalPKCS1PublicKey(key)
	return sha1.Sum(der), sha256.Sum256(der)
}

// ParseRSAIdentity reads and checks a certificate of type 2 of a CERTS cell: a
// self-signed X.509 certificate of a 1024-bit RSA key with exponent 65537. It does
// not check the time of validity: see CheckTime.
func ParseRSAIdentity(der []byte) (*RSAIdentity, error) {
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fault.New(fault.Protocol, "RSA identity certificate: %w", err)
	}
	key, ok := c.PublicKey.(*rsa.PublicKey)
	if !ok {
		return nil, fault.New(fault.Protocol, "RSA identity certificate: the key is not RSA")
	}
	if key.N.BitLen() != RSAIdentityBits || key.E != 65537 {
		return nil, fault.New(fault.Protocol, "RSA identity certificate: key of %d bits with exponent %d", key.N.BitLen(), key.E)
	}
	// CheckSignature, not CheckSignatureFrom: C tor sets no CA flag.
	if err := c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature); err != nil {
		return nil, fault.New(fault.Protocol, "RSA identity certificate: it is not signed by its own key: %w", err)
	}
	id := &RSAIdentity{Key: key, NotBefore: c.NotBefore, NotAfter: c.NotAfter}
	id.ID, id.SHA256 = RSAKeyID(key)
	return id, nil
}

// CheckTime checks that the certificate is valid at now, with C tor's tolerance: it
// may have ended up to two days ago, or begin in up to thirty days.
func (c *RSAIdentity) CheckTime(now time.Time) error {
	switch {
	case now.Add(-pastSlop).After(c.NotAfter):
		return expired(now, c.NotAfter, "RSA identity certificate")
	case now.Add(futureSlop).Before(c.NotBefore):
		return fault.New(fault.Protocol, "RSA identity certificate: %w", ErrNotYetValid)
	}
	return nil
}

// X509 describes an X.509 certificate in C tor's style.
type X509 struct {
	Subject, Issuer string // common names, made by RandomHostname
	NotBefore       time.Time
	NotAfter        time.Time
}

// Lifetime returns the times of a certificate with a lifetime of life. It begins at
// a random midnight (UTC) in the past, such that it is valid for at least one more
// day, so that it does not reveal when the relay started. C tor does the same.
func Lifetime(rand io.Reader, now time.Time, life time.Duration) (notBefore, notAfter time.Time, err error) {
	const day = 24 * time.Hour
	back := life - 2*day
	if back < time.Second {
		back = time.Second
	}
	n, err := randUint64(rand)
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	start := now.Add(-time.Duration(n % uint64(back))).UTC().Truncate(day)
	return start, start.Add(life), nil
}

// LinkLife returns for how long a certificate of TLS should be valid: a random number of whole days from 5 to
// 365, half of the time less a second. C tor does the same.
func LinkLife(rand io.Reader) (time.Duration, error) {
	n, err := randUint64(rand)
	if err != nil {
		return 0, err
	}
	life := time.Duration(5+n/2%360) * 24 * time.Hour
	if n%2 == 1 {
		life -= time.Second
	}
	return life, nil
}

// Sign makes the certificate of the public key pub, signed by key with SHA-256:
// version 3, a random 64-bit serial number, no extension.
func (c *X509) Sign(rand io.Reader, pub *rsa.PublicKey, key *rsa.PrivateKey) ([]byte, error) {
	serial, err := randUint64(rand)
	if err != nil {
		return nil, err
	}
	subject, err := rawName(c.Subject)
	if err != nil {
		return nil, err
	}
	issuer, err := rawName(c.Issuer)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:       new(big.Int).SetUint64(max(serial, 1)), // never zero
		RawSubject:         subject,
		NotBefore:          c.NotBefore,
		NotAfter:           c.NotAfter,
		SignatureAlgorithm: x509.SHA256WithRSA,
	}
	der, err := x509.CreateCertificate(rand, template, &x509.Certificate{RawSubject: issuer}, pub, key)
	if err != nil {
		return nil, fault.New(fault.Local, "X.509 certificate: %w", err)
	}
	return der, nil
}

// rawName encodes a common name as a UTF8String, as OpenSSL does; crypto/x509
// alone would choose PrintableString.
func rawName(cn string) ([]byte, error) {
	type attribute struct {
		Type  asn1.ObjectIdentifier
		Value string `asn1:"utf8"`
	}
	attr, err := asn1.Marshal(attribute{asn1.ObjectIdentifier{2, 5, 4, 3}, cn})
	if err != nil {
		return nil, fault.New(fault.Config, "X.509 name: %w", err)
	}
	set := asn1.RawValue{Class: asn1.ClassUniversal, Tag: asn1.TagSet, IsCompound: true, Bytes: attr}
	return asn1.Marshal([]asn1.RawValue{set})
}

// RandomHostname returns a host name without a meaning, such as
// "www.k5f3mzqu2a.net", with a middle part of least to most characters, at most 25.
func RandomHostname(rand io.Reader, least, most int, suffix string) (string, error) {
	var b [18]byte
	if _, err := io.ReadFull(rand, b[:]); err != nil {
		return "", fault.New(fault.Local, "random host name: %w", err)
	}
	s := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:16]))
	return "www." + s[:least+int(binary.BigEndian.Uint16(b[16:]))%(most-least+1)] + suffix, nil
}

func randUint64(rand io.Reader) (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(rand, b[:]); err != nil {
		return 0, fault.New(fault.Local, "random number: %w", err)
	}
	return binary.BigEndian.Uint64(b[:]), nil
}
