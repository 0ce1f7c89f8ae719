package handshake

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

func TestHSNtorVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ HSNtor []map[string]hexBytes }
	if err := json.Unmarshal(raw, &file); err != nil || len(file.HSNtor) == 0 {
		t.Fatal("no vectors", err)
	}
	for _, v := range file.HSNtor {
		key, err := NtorKeyPairFromSecret(v["b"])
		if err != nil {
			t.Fatal(err)
		}
		pub := key.Public()
		equal(t, "B", pub[:], v["B"])
		svc := HSService{pub, ident.Ed25519ID(v["auth"]), [32]byte(v["subcredential"])}
		st, err := HSNtorClient(bytes.NewReader(v["x"]), svc)
		if err != nil {
			t.Fatal(err)
		}
		body := st.Introduce(v["header"], v["plaintext"])
		equal(t, "introduction", append(bytes.Clone(v["header"]), body...), v["cell"])
		sst, plain, err := HSNtorOpen(key, svc.Auth, [][32]byte{{1}, svc.Subcredential, {2}}, v["header"], body)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "plaintext", plain, v["plaintext"])
		reply, sks, err := sst.Reply(bytes.NewReader(v["y"]))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "reply", reply, v["reply"])
		cks, err := st.Finish(reply)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "client keys", read(t, cks, 128), v["keys"])
		equal(t, "service keys", read(t, sks, 128), v["keys"])
	}
}

// The values are from hs_ntor_ref.py.
func TestHSMAC(t *testing.T) {
	for want, in := range map[string][2]string{
		"5e7da329630fdaa3eab7498bb1dc625bbb9ca968f10392b6af92d51d5db17473": {"who", "knows?"},
		"90071aabb06d3f7c777db41542f4790c7dd9e2e7b2b842f54c9c42bbdb37e9a0": {"gone", "by"},
	} {
		var w hexBytes
		if err := w.UnmarshalText([]byte(want)); err != nil {
			t.Fatal(err)
		}
		m := HSMAC([]byte(in[0]), []byte(in[1]))
		equal(t, in[0], m[:], w)
	}
}

func TestHSNtorRefuses(t *testing.T) {
	key := pair(t)
	svc := HSService{key.Public(), ident.Ed25519ID{3}, [32]byte{5}}
	subs := [][32]byte{svc.Subcredential}
	header, plain := []byte("header"), []byte("where to meet")
	st, err := HSNtorClient(rand.Reader, svc)
	if err != nil {
		t.Fatal(err)
	}
	body := st.Introduce(header, plain)
	for i := range len(body) * 8 {
		bad := bytes.Clone(body)
		bad[i/8] ^= 1 << (i % 8)
		_, _, err := HSNtorOpen(key, svc.Auth, subs, header, bad)
		protocolError(t, "flipped introduction", err)
	}
	for n := range body {
		_, _, err := HSNtorOpen(key, svc.Auth, subs, header, body[:n])
		protocolError(t, "truncated introduction", err)
	}
	for name, f := range map[string]func() error{
		"another header":        func() error { _, _, err := HSNtorOpen(key, svc.Auth, subs, []byte("Header"), body); return err },
		"another point":         func() error { _, _, err := HSNtorOpen(key, ident.Ed25519ID{4}, subs, header, body); return err },
		"another key":           func() error { _, _, err := HSNtorOpen(pair(t), svc.Auth, subs, header, body); return err },
		"another subcredential": func() error { _, _, err := HSNtorOpen(key, svc.Auth, [][32]byte{{6}}, header, body); return err },
		"no subcredential":      func() error { _, _, err := HSNtorOpen(key, svc.Auth, nil, header, body); return err },
	} {
		protocolError(t, name, f())
	}
	sst, got, err := HSNtorOpen(key, svc.Auth, subs, header, body)
	if err != nil || !bytes.Equal(got, plain) || sst.x != st.x.pub {
		t.Fatal(err)
	}
	reply, _, err := sst.Reply(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(reply) * 8 {
		bad, c := bytes.Clone(reply), *st
		bad[i/8] ^= 1 << (i % 8)
		_, err := c.Finish(bad)
		protocolError(t, "flipped reply", err)
	}
	c := *st
	_, err = c.Finish(reply[:63])
	protocolError(t, "short reply", err)
	if _, err := st.Finish(append(bytes.Clone(reply), make([]byte, 84)...)); err != nil {
		t.Fatal(err) // C tor pads the message
	}
	if _, err := st.Finish(reply); !fault.Is(err, fault.Local) || st.x.sec != [32]byte{} || st.xb != [32]byte{} {
		t.Error("a state was used twice")
	}
	var zero [32]byte
	for _, bad := range smallKeys(t) {
		if _, err := HSNtorClient(rand.Reader, HSService{bad, svc.Auth, svc.Subcredential}); err == nil {
			t.Error("a service key of small order was accepted")
		}
		k := hsIntroKeys(&zero, &svc.Auth, &bad, &key.pub, &svc.Subcredential)
		forged := bytes.Clone(bad[:])
		mac := k.mac(header, forged)
		_, _, err := HSNtorOpen(key, svc.Auth, subs, header, append(forged, mac[:]...))
		protocolError(t, "X of small order", err)
		st, _ := HSNtorClient(rand.Reader, svc)
		auth, _ := hsRendKeys(&zero, &st.xb, &svc.Auth, &key.pub, &st.x.pub, &bad)
		_, err = st.Finish(append(bytes.Clone(bad[:]), auth[:]...))
		protocolError(t, "Y of small order", err)
	}
}

func FuzzHSNtorOpen(f *testing.F) {
	key, _ := NtorKeyPairFromSecret(make([]byte, 32))
	st, _ := HSNtorClient(bytes.NewReader(make([]byte, 32)), HSService{Enc: key.Public()})
	f.Add([]byte("h"), st.Introduce([]byte("h"), make([]byte, 40)))
	f.Add([]byte{}, make([]byte, 64))
	f.Fuzz(func(t *testing.T, header, body []byte) {
		_, plain, err := HSNtorOpen(key, ident.Ed25519ID{}, [][32]byte{{}}, header, body)
		if err == nil && len(plain) != len(body)-HSIntroOverhead {
			t.Error("length")
		}
	})
}
