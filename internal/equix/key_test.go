package equix

import (
	"encoding"
	"testing"

	"golang.org/x/crypto/blake2b"
)

// TestSaltedState loads the state for an empty salt: it must be the hash without a salt. That the salt itself is at
// its place, the vectors show.
func TestSaltedState(t *testing.T) {
	for _, text := range []string{"", "abc", string(make([]byte, 1000))} {
		h := newBLAKE2b()
		if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(salted("")); err != nil {
			t.Fatal(err)
		}
		h.Write([]byte(text))
		if got, want := [64]byte(h.Sum(nil)), blake2b.Sum512([]byte(text)); got != want {
			t.Errorf("%d bytes: %x, not %x", len(text), got, want)
		}
	}
}
