package cert

import (
	"bytes"
	"crypto/ed25519"
	"testing"
	"time"

	"filippo.io/edwards25519"
)

// TestStoredKeyIsClamped: whatever bytes a key is read from, what is stored again is clamped (RFC 8032,
// section 5.1.5), and is the same key.
func TestStoredKeyIsClamped(t *testing.T) {
	for _, fill := range []byte{0, 0xff, 0x55} {
		k, err := NewExpanded(bytes.Repeat([]byte{fill}, ExpandedLen))
		if err != nil {
			t.Fatal(err)
		}
		b := k.Bytes()
		if b[0]&7 != 0 || b[31]&0xc0 != 0x40 || b[0]&^7 != fill&^7 || b[31]&0x3f != fill&0x3f {
			t.Errorf("bytes of %#x: %#x and %#x", fill, b[0], b[31])
		}
		again, err := NewExpanded(b)
		if err != nil || again.Public() != k.Public() || !again.Equal(k) {
			t.Errorf("bytes of %#x: another key: %v", fill, err)
		}
	}
}

// TestBlindedKey: a blinded key keeps its scalar, which is not clamped, and signs as its public half
// says; one of another length or that is not reduced is refused.
func TestBlindedKey(t *testing.T) {
	scalar, err := edwards25519.NewScalar().SetUniformBytes(bytes.Repeat([]byte{7}, 64))
	if err != nil {
		t.Fatal(err)
	}
	b := append(scalar.Bytes(), bytes.Repeat([]byte{9}, 32)...)
	k, err := NewBlinded(b)
	if err != nil {
		t.Fatal(err)
	}
	if want := new(edwards25519.Point).ScalarBaseMult(scalar).Bytes(); !bytes.Equal(k.pub[:], want) || !bytes.Equal(k.Bytes(), b) {
		t.Error("it is another key")
	}
	if !ed25519.Verify(k.pub[:], []byte("message"), k.Sign([]byte("message"))) {
		t.Error("what it signs cannot be verified")
	}
	for _, n := range []int{0, 32, ExpandedLen - 1, ExpandedLen + 1} {
		if k, err := NewBlinded(make([]byte, n)); err == nil || k != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if k, err := NewBlinded(bytes.Repeat([]byte{0xff}, ExpandedLen)); err == nil || k != nil {
		t.Error("a scalar that is not reduced:", err)
	}
}

// TestLifetimeBounds: the first and the last random number that there is give a certificate that began in the past
// and has a day left, also if its life is short.
func TestLifetimeBounds(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	const day = 24 * time.Hour
	for _, life := range []time.Duration{5 * day, 100 * day, 365 * day} {
		early, late := now, time.Time{}
		for _, b := range [][]byte{make([]byte, 8), bytes.Repeat([]byte{0xff}, 8), {1, 2, 3, 4, 5, 6, 7, 8}} {
			from, to, err := Lifetime(bytes.NewReader(b), now, life)
			if err != nil || to.Sub(from) != life || !from.Equal(from.Truncate(day)) || from.After(now) || to.Sub(now) < day {
				t.Errorf("%v: from %v to %v: %v", life, from, to, err)
			}
			if from.Before(early) {
				early = from
			}
			if from.After(late) {
				late = from
			}
		}
		if !late.Equal(now.Truncate(day)) || early.Before(now.Add(-life).Add(day)) {
			t.Errorf("%v: from %v to %v", life, early, late)
		}
	}
	for _, life := range []time.Duration{day, 2 * day} {
		if from, _, err := Lifetime(bytes.NewReader(bytes.Repeat([]byte{0xff}, 8)), now, life); err != nil || !from.Equal(now.Truncate(day)) {
			t.Errorf("%v: from %v: %v", life, from, err)
		}
	}
}
