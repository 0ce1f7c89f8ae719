package handshake

import (
	"bytes"
	"crypto/rand"
	"crypto/sha3"
	"encoding/json"
	"os"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

func loadPQOnion(t *testing.T) []map[string]any {
	b, err := os.ReadFile("testdata/pq-onion-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Onion []map[string]any }
	if err := json.Unmarshal(b, &v); err != nil || len(v.Onion) != 4 {
		t.Fatal("vectors are missing", err)
	}
	return v.Onion
}

// hsPair does hs-ntor with given random bytes; both ends' key streams.
func hsPair(t *testing.T, b, auth, x, y []byte) (client, service KeyStream, reply []byte) {
	t.Helper()
	key, err := NtorKeyPairFromSecret(b)
	if err != nil {
		t.Fatal(err)
	}
	svc := HSService{Enc: key.Public(), Auth: ident.Ed25519ID(auth)}
	cs, err := HSNtorClient(bytes.NewReader(x), svc)
	if err != nil {
		t.Fatal(err)
	}
	ss, _, err := HSNtorOpen(key, svc.Auth, [][32]byte{{}}, nil, cs.Introduce(nil, []byte("plaintext")))
	if err != nil {
		t.Fatal(err)
	}
	if reply, service, err = ss.Reply(bytes.NewReader(y)); err != nil {
		t.Fatal(err)
	}
	if client, err = cs.Finish(reply); err != nil {
		t.Fatal(err)
	}
	return client, service, reply
}

// keysLen is how much of a key stream CGO takes, in bytes; tor1 with SHA3-256 takes the
// first 128.
const keysLen = 160

// The reference program's vectors, both roles.
func TestHSKEMVectors(t *testing.T) {
	for _, v := range loadPQOnion(t) {
		f := func(name string) []byte { return field(t, v, name) }
		chs, shs, reply := hsPair(t, f("b"), f("auth"), f("x"), f("y"))
		equal(t, "rendezvous", reply, f("rendezvous"))
		s := chs.(Exporter).Export(hskemLabel)
		equal(t, "exported secret", s[:], f("s"))
		equal(t, "hs-ntor's keys", read(t, chs, keysLen), f("hs_keys"))

		key, err := NewHSKEMKey(bytes.NewReader(f("dz")), ident.Ed25519ID(f("blinded")))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "EK", key.Public(), f("ek"))
		cl, err := HSKEMEncapsulate(bytes.NewReader(f("m")), ident.Ed25519ID(f("blinded")), f("ek"))
		if err != nil {
			t.Fatal(err)
		}
		an := cl.Announcement()
		equal(t, "extension", an.Ext().Body, f("ext"))
		if an.ID != key.ID() || an.Set != uint8(HSKEMSet) {
			t.Error("the announcement names another key")
		}
		ct, want, cks, err := cl.Finish(chs)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "CT", ct, f("ct"))
		for name, format := range map[string]cell.RelayFormat{"fragments": cell.RelayV0, "fragments_cgo": cell.RelayV1} {
			parts, err := AppendFragments(nil, ct, format.MaxData(false))
			if err != nil || len(parts) != 3 {
				t.Fatal(len(parts), err)
			}
			equal(t, name, bytes.Join(parts, nil), f(name))
		}
		confirm, sks, err := key.Finish(shs, an.Hash, ct)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "CONFIRM", confirm[:], f("confirm"))
		equal(t, "the client's CONFIRM", want[:], f("confirm"))
		exporter := cks.(Exporter).Export(RekeyExportLabel)
		equal(t, "the next exported secret", exporter[:], f("export"))
		for _, ks := range []KeyStream{cks, sks} {
			equal(t, "keys", read(t, ks, keysLen), f("keys"))
		}

		st, request, err := RekeyClient(bytes.NewReader(f("rekey_dz")), HSKEMSet, exporter, HSRekeyVerification)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "rekey request", request, f("rekey_request"))
		rst, rekeyReply, rks, err := RekeyServer(bytes.NewReader(f("rekey_m")), exporter, [][]byte{HSRekeyVerification}, request)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "rekey reply", rekeyReply, f("rekey_reply"))
		rconfirm, _, err := st.Finish(rekeyReply)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "rekey confirm", rconfirm, f("rekey_confirm"))
		equal(t, "rekey keys", read(t, rks, keysLen), f("rekey_keys"))
		if err := rst.Confirm(rconfirm); err != nil {
			t.Error(err)
		}
	}
}

// hskem is a whole exchange up to the ciphertext.
func hskem(t *testing.T) (key *HSKEMKey, cl *HSKEMClient, chs, shs KeyStream) {
	t.Helper()
	var random [96]byte
	_, _ = rand.Read(random[:])
	chs, shs, _ = hsPair(t, random[:32], make([]byte, 32), random[32:64], random[64:])
	key, err := NewHSKEMKey(rand.Reader, ident.Ed25519ID{7})
	if err != nil {
		t.Fatal(err)
	}
	if cl, err = HSKEMEncapsulate(rand.Reader, ident.Ed25519ID{7}, key.Public()); err != nil {
		t.Fatal(err)
	}
	return key, cl, chs, shs
}

// TestHSKEMRefuses: a ciphertext other than the announced one is refused, and two ends that
// disagree about anything have different keys.
func TestHSKEMRefuses(t *testing.T) {
	key, cl, chs, shs := hskem(t)
	hash := cl.Announcement().Hash
	ct, want, cks, err := cl.Finish(chs)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := cl.Finish(chs); !fault.Is(err, fault.Local) || cl.ss != nil {
		t.Error("a ciphertext's secret was used twice", err)
	}
	for i := range len(ct) * 8 {
		bad := bytes.Clone(ct)
		bad[i/8] ^= 1 << (i % 8)
		_, _, err := key.Finish(shs, hash, bad)
		protocolError(t, "flipped", err)
	}
	for _, n := range []int{0, 1, len(ct) - 1} {
		_, _, err := key.Finish(shs, hash, ct[:n])
		protocolError(t, "truncated", err)
	}
	_, _, err = key.Finish(shs, hash, append(bytes.Clone(ct), 0))
	protocolError(t, "too long", err)
	keys := read(t, cks, 128)
	differs := func(what string, key *HSKEMKey, hs KeyStream, ct []byte) {
		t.Helper()
		confirm, ks, err := key.Finish(hs, sha3.Sum256(ct), ct)
		if err != nil {
			t.Fatal(err)
		}
		if confirm == want || bytes.Equal(read(t, ks, 128), keys) {
			t.Errorf("%s: the same keys", what)
		}
	}
	bad := bytes.Clone(ct)
	bad[5] ^= 1
	differs("a forged ciphertext whose hash was announced", key, shs, bad)
	other, _, _, strange := hskem(t)
	differs("another key", other, shs, ct)
	differs("another hs-ntor", key, strange, ct)
	another := &HSKEMKey{blinded: ident.Ed25519ID{8}, ek: key.ek, kem: key.kem}
	differs("another descriptor", another, shs, ct)
	confirm, ks, err := key.Finish(shs, hash, ct)
	if err != nil || confirm != want || !bytes.Equal(read(t, ks, 128), keys) {
		t.Error("the right one fails", err)
	}
	key.Wipe()
	if _, _, err := key.Finish(shs, hash, ct); !fault.Is(err, fault.Closed) || key.kem.sk != nil {
		t.Error("an erased key is in use", err)
	}
	if _, _, err := key.Finish(bytes.NewReader(nil), hash, ct); !fault.Is(err, fault.Local) {
		t.Error(err)
	}
	_, gone, chs, _ := hskem(t)
	gone.Wipe()
	if _, _, _, err := gone.Finish(chs); !fault.Is(err, fault.Local) {
		t.Error(err)
	}
}

// TestCheckHSKEM: keys that FIPS 203 forbids are refused.
func TestCheckHSKEM(t *testing.T) {
	key, _, _, _ := hskem(t)
	if err := CheckHSKEM(key.Public()); err != nil {
		t.Error(err)
	}
	big := bytes.Clone(key.Public())
	big[0], big[1] = 0xff, 0xff // a coefficient of 4095: not below q
	for _, bad := range [][]byte{nil, key.Public()[1:], append(bytes.Clone(key.Public()), 0), big} {
		if err := CheckHSKEM(bad); !fault.Is(err, fault.Directory) {
			t.Error(err)
		}
		if _, err := HSKEMEncapsulate(rand.Reader, ident.Ed25519ID{}, bad); err == nil {
			t.Error("a bad key got a ciphertext")
		}
	}
}

// Whatever a client sends after any announcement is refused, unless it has the hash.
func FuzzHSKEM(f *testing.F) {
	key, _ := NewHSKEMKey(bytes.NewReader(make([]byte, 64)), ident.Ed25519ID{})
	cl, _ := HSKEMEncapsulate(bytes.NewReader(make([]byte, 32)), ident.Ed25519ID{}, key.Public())
	an := cl.Announcement()
	f.Add(an.Ext().Body, cl.ct)
	f.Add([]byte{2}, []byte{})
	hs := &hsStream{v3Stream: v3Stream{proto: hsProtoID}}
	f.Fuzz(func(t *testing.T, ext, ct []byte) {
		an, err := cell.ParseOnionKEM(ext)
		if err != nil {
			return
		}
		if !bytes.Equal(an.Ext().Body, ext) {
			t.Error("the announcement encodes to something else")
		}
		_, ks, err := key.Finish(hs, an.Hash, ct)
		if (err == nil) != (len(ct) == HSKEMSet.CiphertextLen() && sha3.Sum256(ct) == an.Hash) || err == nil && len(read(t, ks, 128)) != 128 {
			t.Error(err)
		}
	})
}

func BenchmarkHSKEM(b *testing.B) {
	hs := &hsStream{v3Stream: v3Stream{proto: hsProtoID}}
	key, _ := NewHSKEMKey(rand.Reader, ident.Ed25519ID{})
	b.Run("client", func(b *testing.B) {
		for b.Loop() {
			cl, _ := HSKEMEncapsulate(rand.Reader, ident.Ed25519ID{}, key.Public())
			_ = cl.Announcement()
			if _, _, _, err := cl.Finish(hs); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("service", func(b *testing.B) {
		cl, _ := HSKEMEncapsulate(rand.Reader, ident.Ed25519ID{}, key.Public())
		hash := cl.Announcement().Hash
		for b.Loop() {
			if _, _, err := key.Finish(hs, hash, cl.ct); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("key", func(b *testing.B) {
		for b.Loop() {
			if _, err := NewHSKEMKey(rand.Reader, ident.Ed25519ID{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
