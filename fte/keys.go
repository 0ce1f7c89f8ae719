package fte

import (
	"bufio"
	"crypto/ecdh"
	"encoding/base64"
	"io"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// Lengths and prefixes of the text forms (docs/spec/fte.md, "Keys").
const (
	secretLen = 16
	keyLine   = "chive-fte-key-1:"
	certLine  = "chive-fte-cert-1:"
	maxKeys   = 8
)

// ServerKey is a server's identity: an X25519 private key and a shared secret
// that only holders of its certificate have.
type ServerKey struct {
	priv   *ecdh.PrivateKey
	secret [secretLen]byte
}

// Cert is what a client needs to reach a server, and what proves to the server
// that the client was told about it: keep it as private as the server's
// address.
type Cert struct {
	pub    *ecdh.PublicKey
	secret [secretLen]byte
}

// NewServerKey makes a random key.
func NewServerKey(rand io.Reader) (*ServerKey, error) {
	var b [32 + secretLen]byte
	if _, err := io.ReadFull(rand, b[:]); err != nil {
		return nil, fault.New(fault.Local, "reading randomness for a key: %w", err)
	}
	return serverKey(b[:])
}

func serverKey(b []byte) (*ServerKey, error) {
	if len(b) != 32+secretLen {
		return nil, fault.New(fault.Config, "a server key holds %d bytes, not %d", 32+secretLen, len(b))
	}
	priv, err := ecdh.X25519().NewPrivateKey(b[:32])
	if err != nil {
		return nil, fault.New(fault.Config, "a server key: %w", err)
	}
	return &ServerKey{priv: priv, secret: [secretLen]byte(b[32:])}, nil
}

// Cert returns the key's certificate.
func (k *ServerKey) Cert() *Cert { return &Cert{pub: k.priv.PublicKey(), secret: k.secret} }

// Line returns the key as one line of text, which ParseServerKeys reads. It is
// secret.
func (k *ServerKey) Line() string {
	return keyLine + base64.RawURLEncoding.EncodeToString(append(k.priv.Bytes(), k.secret[:]...))
}

// Line returns the certificate as one word of text, which ParseCert reads.
func (c *Cert) Line() string {
	return certLine + base64.RawURLEncoding.EncodeToString(append(c.pub.Bytes(), c.secret[:]...))
}

// String hides the key.
func (*ServerKey) String() string { return "[fte server key]" }

// String hides the certificate; Line gives it.
func (*Cert) String() string { return "[fte certificate]" }

// ParseCert reads a certificate's line, with or without its prefix (bridge lines
// leave it out).
func ParseCert(s string) (*Cert, error) {
	s = strings.TrimPrefix(strings.TrimSpace(s), certLine)
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 32+secretLen {
		return nil, fault.New(fault.Config, "a certificate is %s and %d base64url bytes", certLine, 32+secretLen)
	}
	pub, err := ecdh.X25519().NewPublicKey(b[:32])
	if err != nil {
		return nil, fault.New(fault.Config, "a certificate: %w", err)
	}
	return &Cert{pub: pub, secret: [secretLen]byte(b[32:])}, nil
}

// ParseServerKeys reads a key file: one key on each line, first the current key,
// then earlier keys, which are still accepted. Empty lines and those that begin
// with # are skipped.
func ParseServerKeys(r io.Reader) ([]*ServerKey, error) {
	var keys []*ServerKey
	sc := bufio.NewScanner(io.LimitReader(r, 64<<10))
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		s, ok := strings.CutPrefix(line, keyLine)
		if !ok {
			return nil, fault.New(fault.Config, "line %d doesn't begin with %q", n, keyLine)
		}
		b, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil {
			return nil, fault.New(fault.Config, "line %d isn't base64url", n)
		}
		k, err := serverKey(b)
		if err != nil {
			return nil, fault.New(fault.Config, "line %d: %w", n, err)
		}
		if len(keys) == maxKeys {
			return nil, fault.New(fault.Config, "more than %d keys", maxKeys)
		}
		keys = append(keys, k)
	}
	if err := sc.Err(); err != nil {
		return nil, fault.New(fault.Config, "key file: %w", err)
	}
	if len(keys) == 0 {
		return nil, fault.New(fault.Config, "key file: no key in it; chive fte keygen makes one")
	}
	return keys, nil
}

// Bare returns the certificate without its prefix, for the arguments of a
// bridge line.
func (c *Cert) Bare() string { return strings.TrimPrefix(c.Line(), certLine) }
