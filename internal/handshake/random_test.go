package handshake

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"
	"testing/iotest"

	"github.com/chivenet/chive/internal/ident"
)

// TestNoRandomness: who gets no random numbers makes no handshake, neither as the one that asks nor as the one
// that answers.
func TestNoRandomness(t *testing.T) {
	broken := errors.New("no random numbers")
	none := iotest.ErrReader(broken)
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", what, err)
		}
	}
	r, target := tableRelay(t, "Relay=2-6 ChivePQ=1-3,8")
	for _, k := range Kinds {
		st, skin, err := k.Start(none, target, nil)
		if refused(k.Name, err); skin != nil {
			t.Errorf("%s: an onionskin all the same: %v", k.Name, st)
		}
		if _, skin, err = k.Start(rand.Reader, target, nil); err != nil {
			t.Fatal(k.Name, err)
		}
		answer, ks, err := k.Serve(none, r, skin, echo)
		if refused(k.Name+", the relay", err); answer != nil || ks != nil {
			t.Errorf("%s: the relay answers all the same", k.Name)
		}
	}

	key, ver := pair(t), PQVerification(CarriageB, "8")
	svc := HSService{key.Public(), ident.Ed25519ID{3}, [32]byte{5}}
	_, err := HSNtorClient(none, svc)
	refused("hs-ntor", err)
	hc, err := HSNtorClient(rand.Reader, svc)
	if err != nil {
		t.Fatal(err)
	}
	hs, _, err := HSNtorOpen(key, svc.Auth, [][32]byte{svc.Subcredential}, nil, hc.Introduce(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = hs.Reply(none)
	refused("hs-ntor, the service", err)
	_, err = NewHSKEMKey(none, ident.Ed25519ID{1})
	refused("the service's ML-KEM key", err)

	_, _, err = RekeyClient(none, PQ768, [32]byte{1}, ver)
	refused("rekey", err)
	_, request, err := RekeyClient(rand.Reader, PQ768, [32]byte{1}, ver)
	if err != nil {
		t.Fatal(err)
	}
	_, _, _, err = RekeyServer(none, [32]byte{1}, [][]byte{ver}, request)
	refused("rekey, the relay", err)
}

// TestHSNtorShortest: the shortest introduction has no plaintext, and one byte less is refused. It says for
// which of several subcredentials it was made.
func TestHSNtorShortest(t *testing.T) {
	key := pair(t)
	svc := HSService{key.Public(), ident.Ed25519ID{3}, [32]byte{5}}
	c, err := HSNtorClient(rand.Reader, svc)
	if err != nil {
		t.Fatal(err)
	}
	body := c.Introduce([]byte("header"), nil)
	subs := [][32]byte{{4}, {6}, svc.Subcredential, {7}}
	st, plain, err := HSNtorOpen(key, svc.Auth, subs, []byte("header"), body)
	if err != nil || len(plain) != 0 || len(body) != HSIntroOverhead {
		t.Fatalf("%d bytes: %v", len(body), err)
	}
	if st.Subcredential() != 2 || !bytes.Equal(subs[st.Subcredential()][:], svc.Subcredential[:]) {
		t.Errorf("it was made for number %d", st.Subcredential())
	}
}
