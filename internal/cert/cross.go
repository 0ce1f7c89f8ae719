package cert

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// crossPrefix is the prefix of the data that a cross-certificate signs.
const crossPrefix = "Tor TLS RSA/Ed25519 cross-certificate"

// RSACross states that the holder of an RSA identity key is the relay with an
// Ed25519 identity (cert-spec, "Cross-certificates"). It proves nothing until
// Verify succeeds.
type RSACross struct {
	Key     ident.Ed25519ID
	Expires time.Time // whole hours; valid up to and including this instant

	signed    []byte
	signature []byte
}

// ParseRSACross reads a cross-certificate that fills b. It keeps b.
func ParseRSACross(b []byte) (*RSACross, error) {
	r := bin.NewReader("RSA cross-certificate", b)
	c := new(RSACross)
	r.Copy(c.Key[:])
	c.Expires = fromHours(r.U32())
	c.signed = b[:r.Offset()]
	c.signature = r.Vec8()
	if err := r.End(); err != nil {
		return nil, err
	}
	return c, nil
}

// Verify checks that key signed the certificate and that it is valid at now.
func (c *RSACross) Verify(key *rsa.PublicKey, now time.Time) error {
	h := crossDigest(c.signed)
	// The digest is signed without an algorithm identifier: hash 0.
	if err := rsa.VerifyPKCS1v15(key, 0, h[:], c.signature); err != nil {
		return fault.New(fault.Protocol, "RSA cross-certificate: the signature is wrong")
	}
	if now.After(c.Expires) {
		return expired(now, c.Expires, "RSA cross-certificate")
	}
	return nil
}

// SignRSACross makes the encoding of a cross-certificate. expires is rounded up
// to a whole hour.
func SignRSACross(key *rsa.PrivateKey, id ident.Ed25519ID, expires time.Time) ([]byte, error) {
	b := append([]byte(nil), id[:]...)
	b = binary.BigEndian.AppendUint32(b, toHours(expires))
	h := crossDigest(b)
	sig, err := rsa.SignPKCS1v15(nil, key, 0, h[:])
	if err != nil {
		return nil, fault.New(fault.Local, "RSA cross-certificate: signing: %w", err)
	}
	if len(sig) > 255 {
		return nil, fault.New(fault.Config, "RSA cross-certificate: the RSA key has %d bits, not %d", key.N.BitLen(), RSAIdentityBits)
	}
	return append(append(b, byte(len(sig))), sig...), nil
}

func crossDigest(signed []byte) [32]byte {
	h := sha256.New()
	h.Write([]byte(crossPrefix))
	h.Write(signed)
	return [32]byte(h.Sum(nil))
}
