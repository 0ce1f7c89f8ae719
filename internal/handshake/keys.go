// Package handshake does the circuit handshakes, bytes in and bytes out:
// CREATE_FAST, ntor, ntor-v3 and hs-ntor, both roles (tor-spec and rend-spec;
// proposals 216 and 332), and the post-quantum additions (docs/spec/pq-circuits.md
// and pq-onions.md).
//
// A handshake opens no socket and reads no clock. Randomness is a parameter:
// production passes crypto/rand.Reader, a test passes the bytes of a vector.
// Every state is for one use; Finish wipes it whether it succeeds or not.
package handshake

import (
	"crypto/subtle"
	"io"

	"filippo.io/edwards25519"
	"github.com/cloudflare/circl/dh/x25519"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// KeyStream is the key material of a finished handshake: a layer reads its
// keys from it in the order of the specification.
type KeyStream = io.Reader

// Exporter is what a KeyStream also is when its handshake can yield a secret
// for another purpose (ntor-v3, the hybrid, hs-ntor, and what follows them).
type Exporter interface {
	// Export returns a 32-byte secret bound to the handshake and label. It is
	// independent of the bytes that Read gives, and does not move them.
	Export(label string) [32]byte
}

// NtorKeyPair is a relay's onion key: X25519, used by ntor, ntor-v3 and the
// hybrid alike.
type NtorKeyPair struct {
	pub ident.X25519Key
	sec [32]byte
}

// GenerateNtorKeyPair makes an onion key from 32 bytes of rand.
func GenerateNtorKeyPair(rand io.Reader) (*NtorKeyPair, error) {
	k := new(NtorKeyPair)
	if err := k.generate(rand); err != nil {
		return nil, err
	}
	return k, nil
}

// NtorKeyPairFromSecret rebuilds an onion key from its 32 secret bytes, clamped or not.
func NtorKeyPairFromSecret(secret []byte) (*NtorKeyPair, error) {
	if len(secret) != 32 {
		return nil, fault.New(fault.Config, "onion key: %d secret bytes, not 32", len(secret))
	}
	k := &NtorKeyPair{sec: [32]byte(secret)}
	k.derive()
	return k, nil
}

// Public returns the public half.
func (k *NtorKeyPair) Public() ident.X25519Key { return k.pub }

// Secret returns a copy of the secret half, for storage: clamped (RFC 7748, section 5). C tor
// ends at once on a stored key that is not.
func (k *NtorKeyPair) Secret() [32]byte { return k.sec }

func (k *NtorKeyPair) generate(rand io.Reader) error {
	if r, ok := rand.(withKey); ok && r.ahead.take(k) {
		return nil
	}
	if _, err := io.ReadFull(rand, k.sec[:]); err != nil {
		return fault.New(fault.Local, "make an X25519 key: %w", err)
	}
	k.derive()
	return nil
}

// derive clamps the secret half, which changes nothing that is computed with it, and computes
// the public one: on the Edwards form of the curve, whose table of multiples of the base point
// takes three quarters of the time of circl's ladder for the base point (RFC 7748, section 4.1).
func (k *NtorKeyPair) derive() {
	k.sec[0] &= 248
	k.sec[31] = k.sec[31]&127 | 64
	var s edwards25519.Scalar
	_, _ = s.SetBytesWithClamping(k.sec[:]) // fails only for another length
	var p edwards25519.Point
	copy(k.pub[:], p.ScalarBaseMult(&s).BytesMontgomery())
}

// dh writes the X25519 shared secret of k and pub to out and reports whether
// it is usable: a public key of small order yields zero, which no handshake
// here accepts (RFC 7748, section 6.1).
func (k *NtorKeyPair) dh(out *[32]byte, pub *ident.X25519Key) bool {
	return x25519.Shared((*x25519.Key)(out), (*x25519.Key)(&k.sec), (*x25519.Key)(pub))
}

// wipe forgets the secret half.
func (k *NtorKeyPair) wipe() { clear(k.sec[:]) }

// lookup finds the key pair whose public half is want. Its time depends on the
// number of keys only, so that it does not tell current from previous.
func lookup(keys []*NtorKeyPair, want []byte) (k NtorKeyPair, ok bool) {
	found := 0
	for _, c := range keys {
		eq := subtle.ConstantTimeCompare(c.pub[:], want)
		subtle.ConstantTimeCopy(eq, k.pub[:], c.pub[:])
		subtle.ConstantTimeCopy(eq, k.sec[:], c.sec[:])
		found |= eq
	}
	return k, found == 1
}

// errUsed is what a second Finish of one state returns.
func errUsed(what string) error {
	return fault.New(fault.Local, "%s: the handshake state was already used", what)
}
