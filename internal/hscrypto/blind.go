package hscrypto

import (
	"crypto/sha512"

	"filippo.io/edwards25519"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// SecretLen is the length of a secret key in its expanded form (a scalar and a
// prefix of 32 bytes each), in bytes.
const SecretLen = 64

// basePoint is the base point of Ed25519 as text (rend-spec-v3, KEYBLIND).
const basePoint = "(15112221349535400772501151409588531511454012693041857206046113283949847762202, " +
	"46316835694926478169428394003475163141307993866256225615783033603165251855960)"

// Blind returns the public key that the service of identity id has in a period
// (rend-spec-v3, KEYBLIND). It refuses an id that is not a point of prime order.
func Blind(id ident.Ed25519ID, p Period) (ident.Ed25519ID, error) {
	return blind(id, factor(id, p))
}

// BlindSecret returns the secret key of a period, in expanded form, for the
// identity's secret in the same form. Its scalar is reduced, and must not be
// clamped.
func BlindSecret(secret [SecretLen]byte, p Period) ([SecretLen]byte, error) {
	a, err := clamped(secret[:32])
	if err != nil {
		return [SecretLen]byte{}, err
	}
	var id ident.Ed25519ID
	copy(id[:], new(edwards25519.Point).ScalarBaseMult(a).Bytes())
	return blindSecret(secret, factor(id, p))
}

// factor returns the blinding factor of a period. The caller clamps it.
func factor(id ident.Ed25519ID, p Period) [32]byte {
	return hash([]byte("Derive temporary signing key\x00"), id[:], []byte(basePoint), []byte("key-blind"), u64(p.Num), u64(p.Minutes))
}

func blind(id ident.Ed25519ID, h [32]byte) (out ident.Ed25519ID, err error) {
	a, err := point(id)
	if err != nil {
		return out, err
	}
	s, err := clamped(h[:])
	if err != nil {
		return out, err
	}
	copy(out[:], a.ScalarMult(s, a).Bytes())
	return out, nil
}

func blindSecret(secret [SecretLen]byte, h [32]byte) (out [SecretLen]byte, err error) {
	a, err := clamped(secret[:32])
	if err != nil {
		return out, err
	}
	s, err := clamped(h[:])
	if err != nil {
		return out, err
	}
	copy(out[:], s.Multiply(s, a).Bytes())
	prefix := sha512.Sum512(append([]byte("Derive temporary signing key hash input"), secret[32:]...))
	copy(out[32:], prefix[:])
	return out, nil
}

func clamped(b []byte) (*edwards25519.Scalar, error) {
	s, err := edwards25519.NewScalar().SetBytesWithClamping(b)
	return s, fault.Wrap(fault.Local, err)
}
