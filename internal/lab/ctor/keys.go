package ctor

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha512"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// writeRelayKeys makes a relay's two identity keys in the files where tor looks
// for them, so that every fingerprint is known before any process runs (tor
// makes the signing, onion and link keys itself).
func writeRelayKeys(dataDir string) (ident.RelayID, error) {
	var id ident.RelayID
	dir := filepath.Join(dataDir, "keys")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return id, fault.Wrap(fault.Local, err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		return id, fault.New(fault.Local, "relay RSA identity: %w", err)
	}
	id.RSA = sha1.Sum(x509.MarshalPKCS1PublicKey(&rsaKey.PublicKey))
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)})

	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return id, fault.New(fault.Local, "relay Ed25519 identity: %w", err)
	}
	copy(id.Ed[:], pub)
	for name, data := range map[string][]byte{
		"secret_id_key":                block,
		"ed25519_master_id_secret_key": tagged("ed25519v1-secret", expandEd25519(priv.Seed())),
		"ed25519_master_id_public_key": tagged("ed25519v1-public", pub),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return id, fault.Wrap(fault.Local, err)
		}
	}
	return id, nil
}

// tagged is C tor's file format for Ed25519 keys: a 32-byte header padded with
// zeros, then the key.
func tagged(kind string, key []byte) []byte {
	out := make([]byte, 32, 32+len(key))
	copy(out, "== "+kind+": type0 ==")
	return append(out, key...)
}

// expandEd25519 gives the 64-byte form in which C tor stores a secret key (RFC
// 8032, section 5.1.5, steps 1 and 2).
func expandEd25519(seed []byte) []byte {
	h := sha512.Sum512(seed)
	h[0] &= 248
	h[31] &= 63
	h[31] |= 64
	return h[:]
}

// writeAuthorityKeys runs tor-gencert for an authority's v3 identity,
// signing key and certificate, and returns the v3 identity's fingerprint.
func writeAuthorityKeys(ctx context.Context, gencert, dataDir, dirPort string) (ident.RSAID, error) {
	keys := filepath.Join(dataDir, "keys")
	cmd := exec.CommandContext(ctx, gencert, "--create-identity-key", "--passphrase-fd", "0", "-m", "12",
		"-a", dirPort, "-i", filepath.Join(keys, "authority_identity_key"),
		"-s", filepath.Join(keys, "authority_signing_key"), "-c", filepath.Join(keys, "authority_certificate"))
	cmd.Stdin = strings.NewReader("private network\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return ident.RSAID{}, fault.New(fault.Local, "tor-gencert: %w: %s", err, bytes.TrimSpace(out))
	}
	cert, err := os.ReadFile(filepath.Join(keys, "authority_certificate"))
	if err != nil {
		return ident.RSAID{}, fault.Wrap(fault.Local, err)
	}
	for line := range strings.Lines(string(cert)) {
		if fp, ok := strings.CutPrefix(line, "fingerprint "); ok {
			return ident.ParseRSAID(strings.TrimSpace(fp))
		}
	}
	return ident.RSAID{}, fault.New(fault.Local, "tor-gencert wrote a certificate without a fingerprint line")
}
