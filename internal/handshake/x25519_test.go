package handshake

import (
	"compress/gzip"
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
