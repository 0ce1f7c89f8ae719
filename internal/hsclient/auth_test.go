package hsclient

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
)

const (
	goodAddress = "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid"
	goodKey     = "ZDUVQQ7IKBXSGR2WWOBNM3VP5ELNOYSSINDK7CAUN2WD7A3EKZWQ"
	goodLine    = goodAddress + ":descriptor:x25519:" + goodKey
)

func TestKeys(t *testing.T) {
	id, err := hscrypto.ParseAddress(goodAddress + ".onion")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{goodLine, strings.ToLower(goodLine), goodLine + "\n", goodAddress + ".onion:descriptor:x25519:" + goodKey} {
		k := Keys{}
		if err := k.Add(line); err != nil || k[id] == nil {
			t.Errorf("%q: %v", line, err)
		}
	}
	k := Keys{}
	for range 2 { // the same key again is no mistake
		if err := k.Add(goodLine); err != nil {
			t.Error(err)
		}
	}
	for line, want := range map[string]string{
		"":              "the form is",
		goodLine + ":x": "the form is",
		"x" + goodLine:  "characters before",
		goodAddress + ":descriptor:x448:" + goodKey:                                 "the form is",
		goodAddress + ":descriptor:x25519:" + goodKey[1:]:                           "base32",
		goodAddress + ":descriptor:x25519:" + "1" + goodKey[1:]:                     "base32",
		goodAddress + ":descriptor:x25519:" + strings.Replace(goodKey, "Z", "A", 1): "two keys",
	} {
		if err := k.Add(line); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", line, err)
		} else if strings.Contains(err.Error(), goodKey[2:]) || strings.Contains(err.Error(), goodAddress) {
			t.Errorf("the error tells a secret: %v", err)
		}
	}
}

func TestKeysOfDir(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := func() (Keys, error) {
		k := Keys{}
		return k, k.AddDir(dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write("a.auth_private", goodLine+"\n")
	write("README", "no key")
	if k, err := load(); err != nil || len(k) != 1 {
		t.Error(k, err)
	}
	write("b.auth_private", "no key")
	if _, err := load(); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "b.auth_private") {
		t.Error(err)
	}
	write("b.auth_private", strings.Repeat("x", maxAuthFile+1))
	if _, err := load(); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "no file of at most") {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, "b.auth_private")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := load(); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "chmod 700") {
		t.Error(err)
	}
	if err := (Keys{}).AddDir(filepath.Join(dir, "none")); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
}
