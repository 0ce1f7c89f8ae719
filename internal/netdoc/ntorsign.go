package netdoc

import (
	"crypto/sha512"

	"filippo.io/edwards25519"
	"filippo.io/edwards25519/field"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// edOfX25519 returns the Ed25519 public key of a Curve25519 one; sign says
// which of the two that there are (dir-spec, appendix C).
func edOfX25519(k ident.X25519Key, sign uint8) (ident.Ed25519ID, error) {
	u, err := new(field.Element).SetBytes(k[:])
	if err != nil {
		return ident.Ed25519ID{}, fault.New(fault.Directory, "Curve25519 key: %w", err)
	}
	one := new(field.Element).One()
	den := new(field.Element).Add(u, one)
	y := new(field.Element).Multiply(new(field.Element).Subtract(u, one), den.Invert(den))
	out := ident.Ed25519ID(y.Bytes())
	out[31] |= sign << 7
	return out, nil
}

// ntorSigner returns a signer with the Ed25519 form of a Curve25519 secret
// key, its public key, and that one's sign bit.
func ntorSigner(secret [32]byte) (cert.Signer, ident.Ed25519ID, uint8, error) {
	s, err := new(edwards25519.Scalar).SetBytesWithClamping(secret[:])
	if err != nil {
		return nil, ident.Ed25519ID{}, 0, fault.New(fault.Local, "Curve25519 secret key: %w", err)
	}
	pub := ident.Ed25519ID(new(edwards25519.Point).ScalarBaseMult(s).Bytes())
	prefix := sha512.Sum512(append(secret[:], "Derive high part of ed25519 key from curve25519 key\x00"...))
	sign := func(msg []byte) []byte {
		r := hashScalar(prefix[:32], msg)
		R := new(edwards25519.Point).ScalarBaseMult(r).Bytes()
		k := hashScalar(R, pub[:], msg)
		return append(R, new(edwards25519.Scalar).MultiplyAdd(k, s, r).Bytes()...)
	}
	return sign, pub, pub[31] >> 7, nil
}

// ntorPublic returns the Curve25519 public key of a secret one.
func ntorPublic(secret [32]byte) (ident.X25519Key, error) {
	s, err := new(edwards25519.Scalar).SetBytesWithClamping(secret[:])
	if err != nil {
		return ident.X25519Key{}, fault.New(fault.Local, "Curve25519 secret key: %w", err)
	}
	return ident.X25519Key(new(edwards25519.Point).ScalarBaseMult(s).BytesMontgomery()), nil
}

// hashScalar returns SHA-512 of the parts, reduced.
func hashScalar(parts ...[]byte) *edwards25519.Scalar {
	h := sha512.New()
	for _, p := range parts {
		h.Write(p)
	}
	s, err := new(edwards25519.Scalar).SetUniformBytes(h.Sum(nil))
	if err != nil {
		panic(err) // only for another length than SHA-512's
	}
	return s
}
