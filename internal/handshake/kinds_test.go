package handshake

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
)

// tableRelay is a relay that speaks everything, as it is and as clients see it.
func tableRelay(t *testing.T, proto string) (*Relay, *linkspec.Target) {
	t.Helper()
	set, err := protover.Parse(proto)
	if err != nil {
		t.Fatal(err)
	}
	key, id := pair(t), ident.RelayID{RSA: ident.RSAID{1}, Ed: ident.Ed25519ID{2}}
	return &Relay{ID: id, Onion: []*NtorKeyPair{key}, PQ: []string{"8", set.Versions(ProtoName)}},
		&linkspec.Target{RelayID: id, Ntor: key.Public(), Proto: set}
}

// TestKinds: both halves of every row agree, its onionskin and its answer fit the
// form, and a state serves once.
func TestKinds(t *testing.T) {
	r, target := tableRelay(t, "Relay=2-6 ChivePQ=1-3,8")
	for i, k := range Kinds {
		if OfType(k.Type) != k || Named(k.Name) != k || !k.SpokenBy(target) {
			t.Errorf("row %d, %s: another row has its number or its name, or nobody speaks it", i, k.Name)
		}
		sent, asked := []byte("request"), []byte(nil)
		st, skin, err := k.Start(rand.Reader, target, sent)
		if err != nil {
			t.Fatal(k.Name, err)
		}
		if want := k.SkinLen; !k.Extensions && len(skin) != want || k.Extensions && len(skin) != want+len(sent) {
			t.Errorf("%s: an onionskin of %d bytes", k.Name, len(skin))
		}
		m := cell.Create2{Type: k.Type, Data: skin}
		body := k.Form.AppendCreate(nil, &m)
		got, err := k.Form.ParseCreate(body)
		if err != nil || got.Type != k.Type {
			t.Fatal(k.Name, got, err)
		}
		reply, sks, err := k.Serve(rand.Reader, r, got.Data, func(exts []byte) ([]byte, error) {
			asked = bytes.Clone(exts)
			return []byte("answer"), nil
		})
		if err != nil {
			t.Fatal(k.Name, err)
		}
		if want := k.AnswerLen; !k.Extensions && len(reply) != want || k.Extensions && len(reply) != want+len("answer") {
			t.Errorf("%s: an answer of %d bytes", k.Name, len(reply))
		}
		answer := cell.Created2{Data: reply}
		created := k.Form.AppendCreated(nil, &answer)
		limit := cell.PayloadLen
		if k.Form == cell.FormLong {
			limit = cell.MaxLong
		}
		if len(body) > limit || len(created) > limit {
			t.Errorf("%s: %d and %d bytes do not fit %v", k.Name, len(body), len(created), k.Form.Create)
		}
		exts, cks, err := st.Finish(reply)
		if err != nil {
			t.Fatal(k.Name, err)
		}
		if k.Extensions != (string(asked) == "request") || k.Extensions != (string(exts) == "answer") {
			t.Errorf("%s: the extensions %q and %q arrived", k.Name, asked, exts)
		}
		a, b := make([]byte, 100), make([]byte, 100)
		io.ReadFull(cks, a)
		io.ReadFull(sks, b)
		if !bytes.Equal(a, b) || bytes.Equal(a, make([]byte, 100)) {
			t.Errorf("%s: the two halves have different keys", k.Name)
		}
		if _, _, err := st.Finish(reply); !fault.Is(err, fault.Local) {
			t.Errorf("%s: finished twice: %v", k.Name, err)
		}
		for name, do := range map[string]func() (Client, error){
			"without randomness": func() (Client, error) { c, _, err := k.Start(bytes.NewReader(nil), target, nil); return c, err },
			"with a bad key": func() (Client, error) {
				c, _, err := k.Start(rand.Reader, &linkspec.Target{RelayID: target.RelayID, Proto: target.Proto}, nil)
				if k == Fast || k == Ntor {
					return nil, errors.New("ntor finds out later, and CREATE_FAST has no key")
				}
				return c, err
			},
		} {
			if c, err := do(); c != nil || err == nil {
				t.Errorf("%s, started %s: %v %v", k.Name, name, c, err)
			}
		}
	}
	if OfType(cell.HandshakeTAP) != nil || OfType(PQHandshakeBase) != nil || OfType(PQHandshakeBase+4) != nil || Named("TAP") != nil {
		t.Error("a handshake that does not exist")
	}
}

// TestBest: a client takes the best of what the relay advertises, and neither
// CREATE_FAST nor a hybrid unless somebody asks for it.
func TestBest(t *testing.T) {
	for proto, want := range map[string]*Kind{
		"":                        Ntor,
		"Relay=1-3":               Ntor,
		"Relay=2-4":               NtorV3,
		"Relay=2-6 ChivePQ=1-3,8": NtorV3,
		"Relay=2-3 ChivePQ=1-3":   Ntor,
	} {
		_, target := tableRelay(t, proto)
		if got := Best(target); got != want {
			t.Errorf("%q: %s, not %s", proto, got.Name, want.Name)
		}
		target.Ed = ident.Ed25519ID{}
		if got := Best(target); got != Ntor {
			t.Errorf("%q without an Ed25519 identity: %s", proto, got.Name)
		}
		if PQ768.Kind().SpokenBy(target) {
			t.Error("the hybrid without an Ed25519 identity")
		}
	}
	for proto, want := range map[string]bool{"": false, "ChivePQ=8": false, "Relay=4": false, "Relay=4 ChivePQ=1-3": false, "Relay=4 ChivePQ=8": true} {
		if _, target := tableRelay(t, proto); RekeySpoken(target.Proto) != want {
			t.Errorf("%q: rekeying %v", proto, !want)
		}
	}
}
