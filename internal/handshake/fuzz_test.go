package handshake

import (
	"bytes"
	"crypto/rand"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/ident"
)

// Whatever arrives is answered or refused; nothing that was not made with the
// onion key's public half is accepted.
func FuzzServers(f *testing.F) {
	var seed [32]byte
	k, _ := NtorKeyPairFromSecret(seed[:])
	pub := k.Public()
	_, ntor, _ := ntorClient(bytes.NewReader(make([]byte, 32)), ident.RSAID{}, pub)
	_, v3, _ := ntor3.client(bytes.NewReader(make([]byte, 32)), ident.Ed25519ID{}, pub, nil, []byte{1, 1, 0})
	f.Add(ntor)
	f.Add(v3)
	f.Add(make([]byte, 20))
	f.Fuzz(func(t *testing.T, skin []byte) {
		keys := []*NtorKeyPair{k}
		if _, _, err := fastServer(rand.Reader, skin); (err == nil) != (len(skin) == cell.CreateFastLen) {
			t.Error("CREATE_FAST", err)
		}
		if reply, _, err := ntorServer(rand.Reader, keys, ident.RSAID{}, skin); err == nil && (len(reply) != ntorServerLen || !bytes.Equal(skin[20:52], pub[:])) {
			t.Error("ntor: wrong answer")
		}
		if reply, _, err := ntor3.serve(rand.Reader, keys, ident.Ed25519ID{}, [][]byte{nil}, skin, echo); err == nil && len(reply) != ntorV3ServerLen+5 {
			t.Error("ntor-v3: wrong answer")
		}
	})
}

// No reply that the relay did not make finishes a handshake.
func FuzzFinish(f *testing.F) {
	k, _ := NtorKeyPairFromSecret(make([]byte, 32))
	f.Add(make([]byte, 64))
	f.Add(make([]byte, 40))
	f.Fuzz(func(t *testing.T, reply []byte) {
		fs, _, _ := fastClient(rand.Reader)
		if _, _, err := fs.Finish(reply); err == nil {
			t.Error("CREATE_FAST")
		}
		ns, _, _ := ntorClient(rand.Reader, ident.RSAID{}, k.Public())
		if _, _, err := ns.Finish(reply); err == nil {
			t.Error("ntor")
		}
		vs, _, _ := ntor3.client(rand.Reader, ident.Ed25519ID{}, k.Public(), nil, nil)
		if _, _, err := vs.Finish(reply); err == nil {
			t.Error("ntor-v3")
		}
	})
}

// Whatever arrives at the hybrid's server and at a rekey's is refused unless it
// was made with the right keys.
func FuzzPQServers(f *testing.F) {
	k, _ := NtorKeyPairFromSecret(make([]byte, 32))
	for set := PQ512; set <= PQ1024; set++ {
		_, skin, _ := hybrid(set).client(bytes.NewReader(make([]byte, 96)), ident.Ed25519ID{}, k.Public(), nil, []byte{0})
		_, req, _ := RekeyClient(bytes.NewReader(make([]byte, 64)), set, [32]byte{}, nil)
		f.Add(uint8(set), skin)
		f.Add(uint8(set), req)
	}
	f.Fuzz(func(t *testing.T, n uint8, b []byte) {
		set := PQSet(n)
		if set.Valid() {
			reply, _, err := hybrid(set).serve(rand.Reader, []*NtorKeyPair{k}, ident.Ed25519ID{}, [][]byte{nil}, b, echo)
			if err == nil && len(reply) != hybrid(set).replyLen()+5 {
				t.Error("hybrid: wrong answer")
			}
		}
		_, reply, _, err := RekeyServer(rand.Reader, [32]byte{}, [][]byte{nil}, b)
		if err == nil && len(reply) != PQSet(b[0]).ReplyLen() {
			t.Error("rekey: wrong answer")
		}
	})
}
