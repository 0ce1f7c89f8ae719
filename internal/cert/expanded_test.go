package cert

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"testing"

	"filippo.io/edwards25519"
	"golang.org/x/crypto/curve25519"

	"github.com/chivenet/chive/internal/fault"
)

// An expanded key signs exactly as the ordinary one does.
func TestExpandedSignsLikeTheSeed(t *testing.T) {
	for i := range 20 {
		key := edKey(byte(i))
		x := Expand(key)
		if x.Public() != IdentityOf(key) {
			t.Fatal("another public key")
		}
		m := bytes.Repeat([]byte{byte(i)}, i*7)
		if !bytes.Equal(x.Sign(m), ed25519.Sign(key, m)) {
			t.Fatal("another signature")
		}
		again, err := NewExpanded(x.Bytes())
		if err != nil || !again.Equal(x) || again.Public() != x.Public() {
			t.Fatal(err)
		}
	}
	if _, err := NewExpanded(make([]byte, 63)); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
	if _, err := GenerateExpanded(bytes.NewReader(nil)); err != nil && !fault.Is(err, fault.Local) {
		t.Error(err)
	}
}

// What an onion key signs verifies under the Edwards point that its Montgomery
// form and the sign bit name.
func TestFromX25519(t *testing.T) {
	for range 20 {
		var secret [32]byte
		if _, err := rand.Read(secret[:]); err != nil {
			t.Fatal(err)
		}
		k, sign, err := FromX25519(secret)
		if err != nil {
			t.Fatal(err)
		}
		u, err := curve25519.X25519(secret[:], curve25519.Basepoint)
		if err != nil {
			t.Fatal(err)
		}
		pub := k.Public()
		p, err := new(edwards25519.Point).SetBytes(pub[:])
		if err != nil || !bytes.Equal(p.BytesMontgomery(), u) || pub[31]>>7 != sign {
			t.Fatal("the keys do not belong together")
		}
		if !ed25519.Verify(pub[:], []byte("m"), k.Sign([]byte("m"))) {
			t.Fatal("the signature is wrong")
		}
	}
}
