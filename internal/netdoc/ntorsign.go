package netdoc

import (
	"filippo.io/edwards25519"
	"filippo.io/edwards25519/field"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// edOfX25519 returns the Ed25519 public key that corresponds to a Curve25519
// key. There are two; sign selects one (dir-spec, appendix C).
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

// ntorPublic returns the Curve25519 public key of a secret key.
func ntorPublic(secret [32]byte) (ident.X25519Key, error) {
	s, err := new(edwards25519.Scalar).SetBytesWithClamping(secret[:])
	if err != nil {
		return ident.X25519Key{}, fault.New(fault.Local, "Curve25519 secret key: %w", err)
	}
	return ident.X25519Key(new(edwards25519.Point).ScalarBaseMult(s).BytesMontgomery()), nil
}
