package hscrypto

import (
	"crypto/ecdh"
	"crypto/rand"
	"testing"

	"filippo.io/edwards25519"

	"github.com/chivenet/chive/internal/ident"
)

// yieldsZero asks the standard library: it refuses keys of small order.
func yieldsZero(t *testing.T, k ident.X25519Key) bool {
	t.Helper()
	secret, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ecdh.X25519().NewPublicKey(k[:])
	if err != nil {
		t.Fatal(err)
	}
	_, err = secret.ECDH(public)
	return err != nil
}

// TestSmallOrder: the list has the keys that the standard library refuses, and no others.
func TestSmallOrder(t *testing.T) {
	all := smallOrder[:]
	// The points of order 8 and less of the curve, from one of order 8.
	torsion, err := new(edwards25519.Point).SetBytes([]byte{0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05})
	if err != nil {
		t.Fatal(err)
	}
	p := edwards25519.NewIdentityPoint()
	for range 8 {
		all = append(all, ident.X25519Key(p.BytesMontgomery()))
		p.Add(p, torsion)
	}
	for n := range 256 { // numbers near 0 and near the prime, with each last bit
		all = append(all, ident.X25519Key{byte(n)}, nearPrime(byte(n)))
	}
	refused := 0
	for _, k := range all {
		for _, last := range []byte{0, 0x80} {
			k[31] = k[31]&0x7f | last
			want := yieldsZero(t, k)
			if got := SmallOrder(k); got != want {
				t.Errorf("%x: %v", k, got)
			}
			if want {
				refused++
			}
		}
	}
	if refused < 2*(len(smallOrder)+8+5) {
		t.Errorf("%d are refused", refused)
	}
	for range 100 {
		k, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if SmallOrder(ident.X25519Key(k.PublicKey().Bytes())) {
			t.Errorf("%x", k.PublicKey().Bytes())
		}
	}
}
