package ctor

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHoldOffset: no scheduled vote comes near a network's start, whatever the
// time of day.
func TestHoldOffset(t *testing.T) {
	for s := range int64(holdInterval) {
		now := time.Unix(1700000000+s, 0)
		offset := holdOffset(now, 5*time.Minute)
		// The start of the next interval, as tor computes it.
		next := now.Unix()/holdInterval*holdInterval + int64(offset)
		for next <= now.Unix() {
			next += holdInterval
		}
		if wait := next - now.Unix(); wait < 290 {
			t.Fatalf("at %v, offset %d: a vote after %d seconds", now, offset, wait)
		}
	}
}

// TestRelayKeys checks the key files against the standard library's signature:
// an expanded key whose public key is the one beside it.
func TestRelayKeys(t *testing.T) {
	dir := t.TempDir()
	id, err := writeRelayKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := os.ReadFile(filepath.Join(dir, "keys", "ed25519_master_id_public_key"))
	if err != nil {
		t.Fatal(err)
	}
	if len(pub) != 64 || !strings.HasPrefix(string(pub), "== ed25519v1-public: type0 ==\x00\x00\x00") || string(pub[32:]) != string(id.Ed[:]) {
		t.Errorf("public key file %q", pub)
	}
	sec, err := os.ReadFile(filepath.Join(dir, "keys", "ed25519_master_id_secret_key"))
	if err != nil {
		t.Fatal(err)
	}
	if len(sec) != 96 || len(id.Ed) != ed25519.PublicKeySize || sec[32]&7 != 0 || sec[63]&0xc0 != 0x40 {
		t.Error("the secret key is not in the expanded, clamped form")
	}
}
