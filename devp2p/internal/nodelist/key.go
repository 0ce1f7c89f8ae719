package nodelist

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/chivenet/chive/program"
)

// maxKey bounds a file with a key, in bytes.
const maxKey = 1 << 10

// ParseKey reads a public key: 64 hexadecimal digits.
func ParseKey(text string) (ed25519.PublicKey, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("a key is %d hexadecimal digits", 2*ed25519.PublicKeySize)
	}
	return raw, nil
}

// ReadKey reads a private key from a file: its seed, in hexadecimal.
func ReadKey(path string) (ed25519.PrivateKey, error) {
	raw, err := program.ReadFile(path, maxKey)
	if err != nil {
		return nil, err
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(raw)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s: it is no key of chive-eth nodes key: %d hexadecimal digits", path, 2*ed25519.SeedSize)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// MakeKey makes a private key, and writes it to a file that is not there yet.
func MakeKey(path string) (ed25519.PrivateKey, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w: a key is not replaced", path, fs.ErrExist)
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	return key, program.WriteFile(path, []byte(hex.EncodeToString(key.Seed())+"\n"), 0o600)
}
