package handshake

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"testing"

	"github.com/chivenet/chive/internal/ident"
)

// hexBytes is a byte string that JSON writes in hexadecimal.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

type vectors struct {
	Fast  []struct{ Client, Server, Keys hexBytes }
	Ntor  []map[string]hexBytes
	Ntor3 []map[string]hexBytes
}

func loadVectors(t *testing.T) (v vectors) {
	b, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Fast) == 0 || len(v.Ntor) == 0 || len(v.Ntor3) == 0 {
		t.Fatal("no vectors")
	}
	return v
}

// read takes n bytes of a key stream.
func read(t testing.TB, ks io.Reader, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(ks, b); err != nil {
		t.Fatal(err)
	}
	return b
}

func equal(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n got %x\nwant %x", what, got, want)
	}
}

func TestFastVectors(t *testing.T) {
	for _, v := range loadVectors(t).Fast {
		st, skin, err := fastClient(bytes.NewReader(v.Client))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "onionskin", skin, v.Client)
		reply, sks, err := fastServer(bytes.NewReader(v.Server), skin)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "reply", reply, v.Server)
		_, cks, err := st.Finish(reply)
		if err != nil {
			t.Fatal(err)
		}
		// The layer's keys begin after KH: both sides' streams stand there.
		equal(t, "client keys", read(t, cks, len(v.Keys)), v.Keys)
		equal(t, "server keys", read(t, sks, len(v.Keys)), v.Keys)
	}
}

func TestNtorVectors(t *testing.T) {
	vectors := loadVectors(t).Ntor
	for i, v := range append(vectors, vectors...) {
		b, err := NtorKeyPairFromSecret(v["b"])
		if err != nil {
			t.Fatal(err)
		}
		pub := b.Public()
		equal(t, "B", pub[:], v["B"])
		id := ident.RSAID(v["id"])
		st, skin, err := ntorClient(bytes.NewReader(v["x"]), id, pub)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "onionskin", skin, v["client"])
		if i >= len(vectors) {
			st.Prepare()
		}
		reply, sks, err := ntorServer(bytes.NewReader(v["y"]), []*NtorKeyPair{b}, id, skin)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "reply", reply, v["server"])
		_, cks, err := st.Finish(reply)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "client keys", read(t, cks, len(v["keys"])), v["keys"])
		equal(t, "server keys", read(t, sks, len(v["keys"])), v["keys"])
	}
}

func TestNtorV3Vectors(t *testing.T) {
	for _, v := range loadVectors(t).Ntor3 {
		b, err := NtorKeyPairFromSecret(v["b"])
		if err != nil {
			t.Fatal(err)
		}
		id := ident.Ed25519ID(v["id"])
		st, skin, err := ntor3.client(bytes.NewReader(v["x"]), id, b.Public(), v["ver"], v["cm"])
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "onionskin", skin, v["client"])
		reply, sks, err := ntor3.serve(bytes.NewReader(v["y"]), []*NtorKeyPair{b}, id, [][]byte{v["ver"]}, skin, func(cm []byte) ([]byte, error) {
			equal(t, "client message", cm, v["cm"])
			return v["sm"], nil
		})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "reply", reply, v["server"])
		sm, cks, err := st.Finish(reply)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "server message", sm, v["sm"])
		ce, se := cks.(Exporter).Export("x"), sks.(Exporter).Export("x")
		if ce != se || ce == cks.(Exporter).Export("y") {
			t.Error("exported secrets")
		}
		// Exporting does not move the key stream.
		equal(t, "client keys", read(t, cks, len(v["keys"])), v["keys"])
		equal(t, "server keys", read(t, sks, len(v["keys"])), v["keys"])
		if cks.(Exporter).Export("x") != ce {
			t.Error("the exported secret depends on how much was read")
		}
	}
}
