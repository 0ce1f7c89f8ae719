package handshake

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"os"
	"testing"

	"github.com/chivenet/chive/internal/ident"
)

func loadX25519[T any](t *testing.T, name string) (v []T) {
	f, err := os.Open("testdata/x25519/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&v); err != nil || len(v) == 0 {
		t.Fatal(name, err)
	}
	return v
}

// Wycheproof's vectors: twists, small order, non-canonical points, edge cases
// of the ladder. A zero secret is refused, everything else is right.
func TestX25519Wycheproof(t *testing.T) {
	zero, n := 0, 0
	for _, v := range loadX25519[struct {
		TcID                    int
		Public, Private, Shared hexBytes
	}](t, "wycheproof_kat.json.gz") {
		k, err := NtorKeyPairFromSecret(v.Private)
		if err != nil {
			t.Fatal(err)
		}
		var out [32]byte
		pub := ident.X25519Key(v.Public)
		ok := k.dh(&out, &pub)
		equal(t, "shared secret", out[:], v.Shared)
		if ok != (out != [32]byte{}) {
			t.Errorf("case %d: usable is %v", v.TcID, ok)
		}
		if !ok {
			zero++
		}
		n++
	}
	if n < 80 || zero < 10 {
		t.Errorf("%d cases, %d of them zero", n, zero)
	}
}

func TestX25519RFC7748(t *testing.T) {
	for _, v := range loadX25519[struct{ Input, Output, Scalar hexBytes }](t, "rfc7748_kat_test.json.gz") {
		k, err := NtorKeyPairFromSecret(v.Scalar)
		if err != nil {
			t.Fatal(err)
		}
		var out [32]byte
		pub := ident.X25519Key(v.Input)
		k.dh(&out, &pub)
		equal(t, "shared secret", out[:], v.Output)
	}
}

// TestX25519Base compares public keys with the ladder's product of the base point 9 (RFC 7748, section 4.1): they are computed on
// another form of the curve.
func TestX25519Base(t *testing.T) {
	nine := ident.X25519Key{9}
	secrets := [][]byte{make([]byte, 32), bytes.Repeat([]byte{0xff}, 32)}
	for i := range 200 {
		h := sha256.Sum256([]byte{byte(i)})
		secrets = append(secrets, h[:])
	}
	for _, secret := range secrets {
		k, err := NtorKeyPairFromSecret(secret)
		if err != nil {
			t.Fatal(err)
		}
		var out [32]byte
		pub := k.Public()
		if k.dh(&out, &nine); out != pub {
			t.Fatalf("secret %x: public key %x, and the ladder says %x", secret, pub, out)
		}
	}
}
