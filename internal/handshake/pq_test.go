package handshake

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

func loadPQ(t *testing.T) (v struct{ Handshake, Rekey []map[string]any }) {
	b, err := os.ReadFile("testdata/pq-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Handshake) != 9 || len(v.Rekey) != 9 {
		t.Fatal("vectors are missing")
	}
	return v
}

// field takes one hexadecimal field of a vector.
func field(t *testing.T, v map[string]any, name string) []byte {
	t.Helper()
	var h hexBytes
	s, ok := v[name].(string)
	if !ok || h.UnmarshalText([]byte(s)) != nil {
		t.Fatalf("field %s", name)
	}
	return h
}

// The reference program's vectors, both roles.
func TestPQVectors(t *testing.T) {
	for n, v := range loadPQ(t).Handshake {
		f := func(name string) []byte { return field(t, v, name) }
		set := PQSet(v["set"].(float64))
		b, err := NtorKeyPairFromSecret(f("b"))
		if err != nil {
			t.Fatal(err)
		}
		id := ident.Ed25519ID(f("id"))
		st, skin, err := hybrid(set).client(bytes.NewReader(append(f("x"), f("dz")...)), id, b.Public(), f("ver"), f("cm"))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "onionskin", skin, f("onionskin"))
		reply, sks, err := hybrid(set).serve(bytes.NewReader(append(f("y"), f("m")...)), []*NtorKeyPair{b}, id, [][]byte{[]byte("no"), f("ver")}, f("onionskin"),
			func(cm []byte) ([]byte, error) {
				equal(t, "client message", cm, f("cm"))
				return f("sm"), nil
			})
		if err != nil {
			t.Fatal(n, err)
		}
		equal(t, "reply", reply, f("reply"))
		sm, cks, err := st.Finish(f("reply"))
		if err != nil {
			t.Fatal(n, err)
		}
		equal(t, "server message", sm, f("sm"))
		for _, ks := range []KeyStream{cks, sks} {
			e := ks.(Exporter).Export(RekeyExportLabel)
			equal(t, "exported secret", e[:], f("export"))
			equal(t, "keys", read(t, ks, 256), f("keys"))
		}
	}
}

// The vectors' verification strings are the ones that the carriages make.
func TestPQVerification(t *testing.T) {
	v := loadPQ(t)
	equal(t, "carriage A", PQVerification(CarriageA, "1-3,8"), field(t, v.Handshake[1], "ver"))
	equal(t, "carriage B", PQVerification(CarriageB, "1-3,8"), field(t, v.Rekey[1], "ver"))
}

// script is a random source that says how much of it was used.
type script struct{ r *bytes.Reader }

func newScript(n int) *script {
	return &script{bytes.NewReader(bytes.Repeat([]byte{0x5a, 0xc3, 0x17}, n/3+1)[:n])}
}

func (s *script) Read(p []byte) (int, error) { return s.r.Read(p) }
func (s *script) untouched() bool            { return s.r.Len() == int(s.r.Size()) }

// hop is a relay and a client that are about to meet.
type hop struct {
	set  PQSet
	key  *NtorKeyPair
	id   ident.Ed25519ID
	ver  []byte
	skin []byte
}

func newHop(t testing.TB, set PQSet) *hop {
	h := &hop{set: set, key: pair(t), id: ident.Ed25519ID{4, 2}, ver: PQVerification(CarriageA, "1-3")}
	_, h.skin = h.client(t)
	return h
}

// client makes the same client every time.
func (h *hop) client(t testing.TB) (*v3State, []byte) {
	st, skin, err := hybrid(h.set).client(newScript(96), h.id, h.key.Public(), h.ver, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	return st, skin
}

func (h *hop) server(skin []byte, rnd io.Reader, reply func([]byte) ([]byte, error)) ([]byte, KeyStream, error) {
	return hybrid(h.set).serve(rnd, []*NtorKeyPair{h.key}, h.id, [][]byte{h.ver}, skin, reply)
}

func sets() []PQSet {
	if testing.Short() {
		return []PQSet{PQ768}
	}
	return []PQSet{PQ512, PQ768, PQ1024}
}

// Every single-bit flip of every field is refused. The relay refuses a changed
// onionskin before it draws randomness or shows the message, hence before any
// ML-KEM work.
func TestPQFlips(t *testing.T) {
	for _, set := range sets() {
		h := newHop(t, set)
		rnd := newScript(64)
		for i := range len(h.skin) * 8 {
			bad := bytes.Clone(h.skin)
			bad[i/8] ^= 1 << (i % 8)
			_, _, err := h.server(bad, rnd, func([]byte) ([]byte, error) {
				t.Error("the message of a forged onionskin was shown")
				return nil, nil
			})
			if !fault.Is(err, fault.Protocol) {
				t.Fatalf("%v: onionskin bit %d: %v", set, i, err)
			}
		}
		// What the onionskin does not carry: ID and VER as the relay knows them.
		unseen := append(bytes.Clone(h.id[:]), h.ver...)
		for i := range len(unseen) * 8 {
			bad := bytes.Clone(unseen)
			bad[i/8] ^= 1 << (i % 8)
			if _, _, err := hybrid(set).serve(rnd, []*NtorKeyPair{h.key}, ident.Ed25519ID(bad[:32]), [][]byte{bad[32:]}, h.skin, echo); !fault.Is(err, fault.Protocol) {
				t.Fatalf("%v: identity and verification, bit %d: %v", set, i, err)
			}
		}
		if !rnd.untouched() {
			t.Error("randomness was drawn for a forged onionskin")
		}
		reply, _, err := h.server(h.skin, rnd, echo)
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(reply) * 8 {
			bad := bytes.Clone(reply)
			bad[i/8] ^= 1 << (i % 8)
			st, _ := h.client(t)
			if _, _, err := st.Finish(bad); !fault.Is(err, fault.Protocol) {
				t.Fatalf("%v: reply bit %d: %v", set, i, err)
			}
		}
	}
}

func TestPQRefuses(t *testing.T) {
	for _, set := range []PQSet{PQ512, PQ768, PQ1024} {
		h := newHop(t, set)
		reply, _, err := h.server(h.skin, rand.Reader, echo)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 31, 96, 128, len(h.skin) - 33, len(h.skin) - 1} {
			_, _, err := h.server(h.skin[:n], rand.Reader, echo)
			protocolError(t, "truncated onionskin", err)
		}
		_, _, err = h.server(append(bytes.Clone(h.skin), 0), rand.Reader, echo)
		protocolError(t, "extended onionskin", err)
		for _, n := range []int{0, 64, set.CiphertextLen(), len(reply) - 6, len(reply) - 1} {
			st, _ := h.client(t)
			_, _, err := st.Finish(reply[:n])
			protocolError(t, "truncated reply", err)
		}
		// Another set, another carriage, other versions, another client's reply.
		for other := PQ512; other <= PQ1024; other++ {
			if other != set {
				_, _, err := hybrid(other).serve(rand.Reader, []*NtorKeyPair{h.key}, h.id, [][]byte{h.ver}, h.skin, echo)
				protocolError(t, "another parameter set", err)
			}
		}
		for _, v := range [][]byte{nil, PQVerification(CarriageB, "1-3"), PQVerification(CarriageA, "1-2"), PQVerification(CarriageA, "")} {
			_, _, err := hybrid(set).serve(rand.Reader, []*NtorKeyPair{h.key}, h.id, [][]byte{v}, h.skin, echo)
			protocolError(t, "another verification", err)
		}
		st, _, _ := hybrid(set).client(rand.Reader, h.id, h.key.Public(), h.ver, nil)
		_, _, err = st.Finish(reply)
		protocolError(t, "replayed reply", err)
		if _, _, err := st.Finish(reply); !fault.Is(err, fault.Local) {
			t.Error("a state was used twice")
		}
		no := errors.New("no")
		if _, _, err := h.server(h.skin, rand.Reader, func([]byte) ([]byte, error) { return nil, no }); !errors.Is(err, no) {
			t.Error("the reply function's refusal is lost")
		}
		// A client that holds the right keys and sends a malformed EK.
		st, skin := h.client(t)
		ek := skin[96 : 96+set.EncapsulationKeyLen()]
		ek[0], ek[1], ek[2] = 0xff, 0xff, 0xff
		h.sign(&st.xb, skin)
		_, _, err = h.server(skin, rand.Reader, echo)
		protocolError(t, "malformed encapsulation key", err)
		// X and Y of small order, with MAC and AUTH that fit.
		var zero [32]byte
		for _, bad := range smallKeys(t) {
			_, skin := h.client(t)
			copy(skin[64:], bad[:])
			h.sign(&zero, skin)
			_, _, err = h.server(skin, rand.Reader, echo)
			protocolError(t, "X of small order", err)
			st, skin = h.client(t)
			protocolError(t, "Y of small order", finishForged(t, h, st, skin, &bad, &zero, &st.xb))
			if _, _, err := hybrid(set).client(rand.Reader, h.id, bad, h.ver, nil); err == nil {
				t.Error("an onion key of small order was accepted")
			}
		}
	}
}

// sign puts the MAC on an onionskin that somebody who knows Bx would put.
func (h *hop) sign(xb *[32]byte, skin []byte) {
	x := ident.X25519Key(skin[64:96])
	end := 96 + h.set.EncapsulationKeyLen()
	ph := v3Phase1(hybrid(h.set).proto, xb, &h.id, &h.key.pub, &x, skin[96:end], h.ver)
	mac := ph.mac(skin[end : len(skin)-32])
	copy(skin[len(skin)-32:], mac[:])
}

// finishForged lets st finish with a reply that was made for the given shared
// secrets, by somebody who saw the onionskin.
func finishForged(t *testing.T, h *hop, st *v3State, skin []byte, y *ident.X25519Key, xy, xb *[32]byte) error {
	ek := skin[96 : 96+h.set.EncapsulationKeyLen()]
	ct, ss, err := encapsulate(rand.Reader, h.set, ek)
	if err != nil {
		t.Fatal(err)
	}
	f := v3Finish(hybrid(h.set).proto, h.ver, xy, xb, ss, &h.id, &h.key.pub, &st.x.pub, y, ek, ct)
	mac := [32]byte(skin[len(skin)-32:])
	auth := f.auth(&mac, nil)
	reply := append(append(bytes.Clone(y[:]), ct...), auth[:]...)
	_, _, err = st.Finish(reply)
	return err
}

// Somebody without the onion key, who sees everything and can even break
// ML-KEM, cannot answer.
func TestPQImpostor(t *testing.T) {
	for set := PQ512; set <= PQ1024; set++ {
		h := newHop(t, set)
		for range 100 {
			st, skin, err := hybrid(set).client(rand.Reader, h.id, h.key.Public(), h.ver, nil)
			if err != nil {
				t.Fatal(err)
			}
			y := pair(t)
			var xy, xb [32]byte
			y.dh(&xy, &st.x.pub)
			pair(t).dh(&xb, &st.x.pub)
			protocolError(t, "impostor", finishForged(t, h, st, skin, &y.pub, &xy, &xb))
		}
	}
}

// A client that gives up leaves nothing behind.
func TestPQWipe(t *testing.T) {
	st, _ := newHop(t, PQ768).client(t)
	st.Wipe()
	if st.x.sec != [32]byte{} || st.xb != [32]byte{} || st.kem.sk != nil {
		t.Error("secrets are left")
	}
	if _, _, err := st.Finish(nil); !fault.Is(err, fault.Local) {
		t.Error("a wiped state was used")
	}
}
