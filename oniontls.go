package chive

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// TLSConfig returns the configuration of a server that speaks TLS inside the onion service's
// connections, as HTTPS does: for http.Server's TLSConfig, or tls.NewListener. Each of the
// certificates must be for the onion address; without any, the server gets a new one, from SelfSigned.
//
// The onion address proves by itself whom a client talks to. TLS is for programs that ask for it, such as
// browsers, which give some functions to pages of HTTPS only.
func (l *OnionListener) TLSConfig(certs ...tls.Certificate) (*tls.Config, error) {
	for _, c := range certs {
		if err := l.checkCert(&c); err != nil {
			return nil, fault.New(fault.Config, "onion service: a certificate for TLS: %w", err)
		}
	}
	if len(certs) == 0 {
		own, err := l.SelfSigned()
		if err != nil {
			return nil, err
		}
		certs = []tls.Certificate{own}
	}
	return &tls.Config{Certificates: certs}, nil
}

// checkCert reports why no client of the service could accept a certificate.
func (l *OnionListener) checkCert(c *tls.Certificate) error {
	if len(c.Certificate) == 0 || c.PrivateKey == nil {
		return fault.New(fault.Config, "it is empty, or its key is missing")
	}
	leaf := c.Leaf
	if leaf == nil {
		var err error
		if leaf, err = x509.ParseCertificate(c.Certificate[0]); err != nil {
			return err
		}
	}
	return leaf.VerifyHostname(l.Address())
}

// SelfSigned makes a certificate for the onion address and for names below it, which nobody has
// signed but itself. It is good for a year, and says nothing else, such as when exactly it
// was made. Keep it if clients are to see the same one after a restart.
func (l *OnionListener) SelfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // browsers know no Ed25519
	if err != nil {
		return tls.Certificate{}, fault.New(fault.Local, "onion service: a key for TLS: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, fault.New(fault.Local, "onion service: a certificate for TLS: %w", err)
	}
	from := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -1) // a client's clock may be slow
	name := l.Address()
	c := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		// An address is longer than what a common name may have.
		Subject: pkix.Name{Organization: []string{"onion service"}}, DNSNames: []string{name, "*." + name},
		NotBefore: from, NotAfter: from.AddDate(1, 0, 1),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fault.New(fault.Local, "onion service: a certificate for TLS: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fault.New(fault.Local, "onion service: a certificate for TLS: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
