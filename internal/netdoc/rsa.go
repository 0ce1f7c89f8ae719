package netdoc

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"io"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

const rsaKeyObject = "RSA PUBLIC KEY"

// parseRSAKey decodes an item's RSA key, which must have at least minBits bits.
func parseRSAKey(it *Item, minBits int) (*rsa.PublicKey, ident.RSAID, error) {
	der, err := it.Object(rsaKeyObject)
	if err != nil {
		return nil, ident.RSAID{}, err
	}
	k, err := x509.ParsePKCS1PublicKey(der)
	if err != nil {
		return nil, ident.RSAID{}, fault.New(fault.Directory, "RSA key: %w", err)
	}
	if k.N.BitLen() < minBits || k.N.BitLen() > 8192 || k.E != 65537 {
		return nil, ident.RSAID{}, fault.New(fault.Directory, "RSA key of %d bits with exponent %d", k.N.BitLen(), k.E)
	}
	return k, sha1.Sum(der), nil
}

// RSADigest returns the digest that names an RSA key: SHA-1 over its PKCS#1
// encoding (tor-spec, "preliminaries").
func RSADigest(k *rsa.PublicKey) ident.RSAID { return sha1.Sum(x509.MarshalPKCS1PublicKey(k)) }

// verifyRSA checks a signature over a bare digest: PKCS#1 padding without the
// digest's algorithm, as in all RSA signatures of Tor.
func verifyRSA(k *rsa.PublicKey, digest, sig []byte) error {
	if err := rsa.VerifyPKCS1v15(k, crypto.Hash(0), digest, sig); err != nil {
		return fault.New(fault.Directory, "wrong RSA signature")
	}
	return nil
}

// signRSA makes a signature over a bare digest.
func signRSA(rand io.Reader, k *rsa.PrivateKey, digest []byte) ([]byte, error) {
	sig, err := rsa.SignPKCS1v15(rand, k, crypto.Hash(0), digest)
	if err != nil {
		return nil, fault.New(fault.Local, "RSA signature: %w", err)
	}
	return sig, nil
}
