package handshake

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// smallOrder lists the public keys whose shared secret is zero for every
// scalar (RFC 7748, section 7; the classes of Curve25519's small subgroup and
// its twist's, with the non-canonical encodings).
var smallOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
	"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

func smallKeys(t *testing.T) (ks []ident.X25519Key) {
	for _, s := range smallOrder {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		k := ident.X25519Key(b)
		ks = append(ks, k)
		k[31] ^= 0x80 // the top bit is ignored
		ks = append(ks, k)
	}
	return ks
}

func pair(t testing.TB) *NtorKeyPair {
	t.Helper()
	k, err := GenerateNtorKeyPair(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func echo([]byte) ([]byte, error) { return []byte("reply"), nil }

func protocolError(t *testing.T, what string, err error) {
	t.Helper()
	if !fault.Is(err, fault.Protocol) {
		t.Errorf("%s: %v", what, err)
	}
}

func TestFastRefuses(t *testing.T) {
	st, skin, _ := fastClient(rand.Reader)
	if _, _, err := fastServer(rand.Reader, skin[:19]); err == nil {
		t.Error("a short onionskin was accepted")
	}
	reply, _, _ := fastServer(rand.Reader, skin)
	for i := range len(reply) * 8 {
		bad := bytes.Clone(reply)
		bad[i/8] ^= 1 << (i % 8)
		c := *st
		_, _, err := c.Finish(bad)
		protocolError(t, "flipped bit", err)
	}
	if _, _, err := st.Finish(reply); err != nil {
		t.Fatal(err)
	}
	if _, _, err := st.Finish(reply); err == nil || st.x != [20]byte{} {
		t.Error("a state was used twice")
	}
}

func TestNtorRefuses(t *testing.T) {
	old, cur := pair(t), pair(t)
	keys := []*NtorKeyPair{cur, old}
	id := ident.RSAID{1, 2, 3}
	for _, k := range keys {
		st, skin, _ := ntorClient(rand.Reader, id, k.Public())
		reply, _, err := ntorServer(rand.Reader, keys, id, skin)
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(reply) * 8 {
			bad := bytes.Clone(reply)
			bad[i/8] ^= 1 << (i % 8)
			c := *st
			_, _, err := c.Finish(bad)
			// X25519 ignores Y's top bit, but AUTH covers it.
			protocolError(t, "flipped reply bit", err)
		}
		for i := range len(skin) * 8 {
			bad := bytes.Clone(skin)
			bad[i/8] ^= 1 << (i % 8)
			reply, _, err := ntorServer(rand.Reader, keys, id, bad)
			if i/8 < 52 {
				protocolError(t, "flipped ID or B", err)
				continue
			}
			if err == nil { // a flipped X: the client must see it
				c := *st
				_, _, err = c.Finish(reply)
			}
			protocolError(t, "flipped X", err)
		}
		if _, _, err := st.Finish(reply); err != nil {
			t.Fatal(err)
		}
		if _, _, err := st.Finish(reply); err == nil || st.x.sec != [32]byte{} {
			t.Error("a state was used twice")
		}
	}
	st, skin, _ := ntorClient(rand.Reader, id, cur.Public())
	_, _, err := ntorServer(rand.Reader, keys, id, skin[:83])
	protocolError(t, "short onionskin", err)
	_, _, err = st.Finish(make([]byte, 63))
	protocolError(t, "short reply", err)
	for _, bad := range smallKeys(t) {
		s := bytes.Clone(skin)
		copy(s[52:], bad[:])
		_, _, err := ntorServer(rand.Reader, keys, id, s)
		protocolError(t, "X of small order", err)
		// A relay that sends a Y of small order knows Xy = 0 without y.
		st, _, _ := ntorClient(rand.Reader, id, cur.Public())
		var zero, xb [32]byte
		cur.dh(&xb, &st.x.pub)
		auth, _ := ntorDerive(&zero, &xb, &id, &cur.pub, &st.x.pub, &bad)
		_, _, err = st.Finish(append(bad[:], auth[:]...))
		protocolError(t, "Y of small order", err)
	}
}

func TestNtorV3Refuses(t *testing.T) {
	old, cur := pair(t), pair(t)
	keys := []*NtorKeyPair{cur, old}
	id := ident.Ed25519ID{1, 2, 3}
	ver := []byte(ntor3Verification)
	for _, k := range keys {
		st, skin, _ := ntor3.client(rand.Reader, id, k.Public(), ver, []byte("hello"))
		reply, _, err := ntor3.serve(rand.Reader, keys, id, [][]byte{ver}, skin, echo)
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(skin) * 8 {
			bad := bytes.Clone(skin)
			bad[i/8] ^= 1 << (i % 8)
			_, _, err := ntor3.serve(rand.Reader, keys, id, [][]byte{ver}, bad, func([]byte) ([]byte, error) {
				t.Error("the message of a forged onionskin was shown")
				return nil, nil
			})
			protocolError(t, "flipped onionskin bit", err)
		}
		for i := range len(reply) * 8 {
			bad := bytes.Clone(reply)
			bad[i/8] ^= 1 << (i % 8)
			c := *st
			_, _, err := c.Finish(bad)
			protocolError(t, "flipped reply bit", err)
		}
		if sm, _, err := st.Finish(reply); err != nil || string(sm) != "reply" {
			t.Fatal(err)
		}
		if _, _, err := st.Finish(reply); err == nil || st.x.sec != [32]byte{} || st.xb != [32]byte{} {
			t.Error("a state was used twice")
		}
	}
	st, skin, _ := ntor3.client(rand.Reader, id, cur.Public(), ver, nil)
	for n := range skin {
		_, _, err := ntor3.serve(rand.Reader, keys, id, [][]byte{ver}, skin[:n], echo)
		protocolError(t, "truncated onionskin", err)
	}
	_, _, err := ntor3.serve(rand.Reader, keys, id, [][]byte{[]byte("other")}, skin, echo)
	protocolError(t, "other verification", err)
	_, _, err = st.Finish(make([]byte, 63))
	protocolError(t, "short reply", err)
	no := errors.New("no")
	if _, _, err := ntor3.serve(rand.Reader, keys, id, [][]byte{ver}, skin, func([]byte) ([]byte, error) { return nil, no }); !errors.Is(err, no) {
		t.Error("the reply function's refusal is lost")
	}
	for _, bad := range smallKeys(t) {
		if _, _, err := ntor3.client(rand.Reader, id, bad, ver, nil); err == nil {
			t.Error("an onion key of small order was accepted")
		}
		// X of small order with a MAC that fits Xb = 0.
		var zero [32]byte
		ph := v3Phase1(ntor3.proto, &zero, &id, &cur.pub, &bad, nil, ver)
		mac := ph.mac(nil)
		s := append(bytes.Clone(skin[:64]), bad[:]...)
		_, _, err := ntor3.serve(rand.Reader, keys, id, [][]byte{ver}, append(s, mac[:]...), echo)
		protocolError(t, "X of small order", err)
		// Y of small order with an AUTH that fits Xy = 0.
		st, _, _ := ntor3.client(rand.Reader, id, cur.Public(), ver, nil)
		f := v3Finish(ntor3.proto, ver, &zero, &st.xb, nil, &id, &cur.pub, &st.x.pub, &bad, nil, nil)
		auth := f.auth(&st.mac, nil)
		_, _, err = st.Finish(append(bytes.Clone(bad[:]), auth[:]...))
		protocolError(t, "Y of small order", err)
	}
}

// An impostor knows everything public and lacks the onion key.
func TestImpostor(t *testing.T) {
	real, other := pair(t), pair(t)
	fake := &NtorKeyPair{pub: real.pub, sec: other.sec}
	id := ident.Ed25519ID{9}
	for range 100 {
		st, skin, _ := ntorClient(rand.Reader, ident.RSAID{9}, real.Public())
		reply, _, err := ntorServer(rand.Reader, []*NtorKeyPair{fake}, ident.RSAID{9}, skin)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = st.Finish(reply)
		protocolError(t, "ntor impostor", err)
		_, skin, _ = ntor3.client(rand.Reader, id, real.Public(), nil, nil)
		_, _, err = ntor3.serve(rand.Reader, []*NtorKeyPair{fake}, id, [][]byte{nil}, skin, echo)
		protocolError(t, "ntor-v3 impostor", err)
	}
}

func TestKeyPair(t *testing.T) {
	k := pair(t)
	s := k.Secret()
	k2, err := NtorKeyPairFromSecret(s[:])
	if err != nil || k2.Public() != k.Public() {
		t.Fatal("a key pair does not survive storage", err)
	}
	if _, err := NtorKeyPairFromSecret(s[:31]); err == nil {
		t.Error("31 bytes were accepted")
	}
	if _, err := GenerateNtorKeyPair(bytes.NewReader(s[:31])); err == nil {
		t.Error("a short random source was accepted")
	}
}
