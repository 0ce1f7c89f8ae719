package cert

import (
	"crypto/ed25519"
	"crypto/sha512"
	"crypto/subtle"
	"io"

	"filippo.io/edwards25519"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// ExpandedLen is the length of an expanded secret key, in bytes.
const ExpandedLen = 64

// ExpandedKey is an Ed25519 secret key in its expanded form (RFC 8032, section
// 5.1.5): the scalar and the prefix that RFC 8032 derives from a seed. C tor
// stores keys in this form, and some keys, for example one derived from an onion
// key, have no seed.
type ExpandedKey struct {
	b      [ExpandedLen]byte
	scalar *edwards25519.Scalar
	pub    ident.Ed25519ID
}

// GenerateExpanded makes a key from 32 bytes of rand.
func GenerateExpanded(rand io.Reader) (*ExpandedKey, error) {
	_, k, err := ed25519.GenerateKey(rand)
	if err != nil {
		return nil, fault.New(fault.Local, "make an Ed25519 key: %w", err)
	}
	return Expand(k), nil
}

// Expand returns the expanded form of an ordinary key.
func Expand(key ed25519.PrivateKey) *ExpandedKey {
	b := sha512.Sum512(key.Seed())
	clamp(b[:32])
	k, err := NewExpanded(b[:])
	if err != nil {
		panic(err) // the length is right
	}
	return k
}

// NewExpanded reads a key of ExpandedLen bytes. The scalar is clamped.
func NewExpanded(b []byte) (*ExpandedKey, error) {
	if len(b) != ExpandedLen {
		return nil, fault.New(fault.Config, "expanded Ed25519 key: %d bytes, not %d", len(b), ExpandedLen)
	}
	k := &ExpandedKey{b: [ExpandedLen]byte(b)}
	clamp(k.b[:32])
	var err error
	if k.scalar, err = edwards25519.NewScalar().SetBytesWithClamping(k.b[:32]); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	copy(k.pub[:], new(edwards25519.Point).ScalarBaseMult(k.scalar).Bytes())
	return k, nil
}

// NewBlinded reads a key of ExpandedLen bytes that was derived by key blinding
// (rend-spec-v3, KEYBLIND). Its scalar is reduced modulo the group's order, so
// clamping would make another key of it; one that is not reduced is refused.
func NewBlinded(b []byte) (*ExpandedKey, error) {
	if len(b) != ExpandedLen {
		return nil, fault.New(fault.Config, "blinded Ed25519 key: %d bytes, not %d", len(b), ExpandedLen)
	}
	k := &ExpandedKey{b: [ExpandedLen]byte(b)}
	var err error
	if k.scalar, err = edwards25519.NewScalar().SetCanonicalBytes(k.b[:32]); err != nil {
		return nil, fault.New(fault.Config, "blinded Ed25519 key: the scalar is not reduced")
	}
	copy(k.pub[:], new(edwards25519.Point).ScalarBaseMult(k.scalar).Bytes())
	return k, nil
}

func clamp(s []byte) {
	s[0] &= 248
	s[31] &= 63
	s[31] |= 64
}

// FromX25519 returns the Ed25519 key of a Curve25519 secret key, with which an
// onion key signs, and the sign bit. A verifier needs the sign bit and the
// Curve25519 public key to find the public half (dir-spec, "converting a
// curve25519 public key to an ed25519 public key").
func FromX25519(secret [32]byte) (*ExpandedKey, uint8, error) {
	// C tor derives the prefix in the same way; no one else ever sees it.
	high := sha512.Sum512(append(secret[:], "Derive high part of ed25519 key from curve25519 key\x00"...))
	k, err := NewExpanded(append(secret[:], high[:32]...))
	if err != nil {
		return nil, 0, err
	}
	return k, k.pub[31] >> 7, nil
}

// Public returns the public half.
func (k *ExpandedKey) Public() ident.Ed25519ID { return k.pub }

// Bytes returns a copy of the secret, for storage.
func (k *ExpandedKey) Bytes() []byte { return append([]byte(nil), k.b[:]...) }

// Equal compares two keys in constant time.
func (k *ExpandedKey) Equal(o *ExpandedKey) bool {
	return subtle.ConstantTimeCompare(k.b[:], o.b[:]) == 1
}

// Sign returns the signature of message (RFC 8032, section 5.1.6); it is a
// Signer.
func (k *ExpandedKey) Sign(message []byte) []byte {
	h := sha512.New()
	h.Write(k.b[32:])
	h.Write(message)
	r := uniform(h.Sum(nil))
	point := new(edwards25519.Point).ScalarBaseMult(r).Bytes()
	h.Reset()
	h.Write(point)
	h.Write(k.pub[:])
	h.Write(message)
	s := edwards25519.NewScalar().MultiplyAdd(uniform(h.Sum(nil)), k.scalar, r)
	return append(point, s.Bytes()...)
}

func uniform(b []byte) *edwards25519.Scalar {
	s, err := edwards25519.NewScalar().SetUniformBytes(b)
	if err != nil {
		panic(err) // a SHA-512 digest has the right length
	}
	return s
}
