package chive

import (
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnionAddress: an address has the key that it was made of, whatever its letters' case and the names before
// it. The first one is of rend-spec-v3.
func TestOnionAddress(t *testing.T) {
	for _, address := range []string{"pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion", newOnionKey(t).Address()} {
		for _, form := range []string{address, strings.ToUpper(address), "www." + address} {
			key, err := ParseOnionAddress(form)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := OnionAddress(key); err != nil || again != address || !IsOnionHost(form) {
				t.Errorf("%v: it comes back as another address", err)
			}
		}
		wrong := "a" + address[1:]
		if wrong == address {
			wrong = "b" + address[1:]
		}
		if _, err := ParseOnionAddress(wrong); !errors.Is(err, ErrConfig) || strings.Contains(err.Error(), wrong[:10]) {
			t.Errorf("a wrong checksum: %v", err)
		}
	}
	if _, err := OnionAddress(make(ed25519.PublicKey, 31)); !errors.Is(err, ErrConfig) {
		t.Errorf("a short key: %v", err)
	}
	for host, is := range map[string]bool{"x.onion": true, "ONION..": true, "onion.example": false, "": false} {
		if IsOnionHost(host) != is {
			t.Errorf("%q: %v", host, !is)
		}
	}
}

// TestOpenOnionKey: one program at a time has the key of a directory, and it stays.
func TestOpenOnionKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "key")
	key, unlock, err := OpenOnionKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenOnionKey(dir); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "hosts this service") {
		t.Errorf("the second program: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	again, unlock, err := OpenOnionKey(dir)
	if err != nil {
		t.Fatal("after the first:", err)
	}
	if !again.Equal(key) {
		t.Error("it has another key")
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	// What fails leaves no lock.
	secret := filepath.Join(dir, "hs_ed25519_secret_key")
	whole, err := os.ReadFile(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(secret, whole[:10], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenOnionKey(dir); !errors.Is(err, ErrConfig) {
		t.Errorf("a part of a key: %v", err)
	}
	if err := os.WriteFile(secret, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, unlock, err = OpenOnionKey(dir); err != nil {
		t.Fatal("after a failure:", err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}
