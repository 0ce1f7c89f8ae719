package handshake

import (
	"bytes"
	"crypto/rand"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// The reference program's vectors, both roles.
func TestRekeyVectors(t *testing.T) {
	for _, v := range loadPQ(t).Rekey {
		f := func(name string) []byte { return field(t, v, name) }
		exporter := [32]byte(f("exporter"))
		st, req, err := RekeyClient(bytes.NewReader(f("dz")), PQSet(v["set"].(float64)), exporter, f("ver"))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "request", req, f("request"))
		sst, reply, sks, err := RekeyServer(bytes.NewReader(f("m")), exporter, [][]byte{[]byte("no"), f("ver")}, f("request"))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "reply", reply, f("reply"))
		confirm, cks, err := st.Finish(f("reply"))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "confirm", confirm, f("confirm"))
		if err := sst.Confirm(confirm); err != nil {
			t.Fatal(err)
		}
		if err := sst.Confirm(confirm); !fault.Is(err, fault.Local) {
			t.Error("a state was used twice")
		}
		for _, ks := range []KeyStream{cks, sks} {
			e := ks.(Exporter).Export(RekeyExportLabel)
			equal(t, "exported secret", e[:], f("export"))
			equal(t, "keys", read(t, ks, 256), f("keys"))
		}
	}
}

// From an ntor-v3 hop through two rekeys: the secrets chain, and no key stream
// equals another.
func TestRekeyOfHop(t *testing.T) {
	k, id, ver := pair(t), ident.Ed25519ID{7}, PQVerification(CarriageB, "8")
	st, skin, _ := ntor3.client(rand.Reader, id, k.Public(), nil, nil)
	reply, sks, err := ntor3.serve(rand.Reader, []*NtorKeyPair{k}, id, [][]byte{nil}, skin, echo)
	if err != nil {
		t.Fatal(err)
	}
	_, cks, err := st.Finish(reply)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, set := range []PQSet{PQ768, PQ1024, PQ512} {
		c, s := cks.(Exporter).Export(RekeyExportLabel), sks.(Exporter).Export(RekeyExportLabel)
		st, req, err := RekeyClient(rand.Reader, set, c, ver)
		if err != nil {
			t.Fatal(err)
		}
		sst, reply, newS, err := RekeyServer(rand.Reader, s, [][]byte{ver}, req)
		if err != nil {
			t.Fatal(err)
		}
		confirm, newC, err := st.Finish(reply)
		if err != nil {
			t.Fatal(err)
		}
		if err := sst.Confirm(confirm); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := RekeyServer(rand.Reader, newS.(Exporter).Export(RekeyExportLabel), [][]byte{ver}, req); !fault.Is(err, fault.Protocol) {
			t.Error("a replayed request was accepted")
		}
		cks, sks = newC, newS
		a, b := read(t, cks, 180), read(t, sks, 180)
		if !bytes.Equal(a, b) || seen[string(a)] {
			t.Error("key streams")
		}
		seen[string(a)] = true
	}
}

func TestRekeyFlips(t *testing.T) {
	for _, set := range sets() {
		exporter, ver := [32]byte{1, 2, 3}, PQVerification(CarriageB, "8")
		client := func() *RekeyState {
			st, _, err := RekeyClient(newScript(64), set, exporter, ver)
			if err != nil {
				t.Fatal(err)
			}
			return st
		}
		req := client().request
		rnd := newScript(32)
		for i := range len(req) * 8 {
			bad := bytes.Clone(req)
			bad[i/8] ^= 1 << (i % 8)
			if _, _, _, err := RekeyServer(rnd, exporter, [][]byte{ver}, bad); !fault.Is(err, fault.Protocol) {
				t.Fatalf("%v: request bit %d: %v", set, i, err)
			}
		}
		for n := range len(req) {
			if _, _, _, err := RekeyServer(rnd, exporter, [][]byte{ver}, req[:n]); !fault.Is(err, fault.Protocol) {
				t.Fatalf("%v: request of %d bytes", set, n)
			}
		}
		// What the request does not carry: the hop's secret and VER.
		unseen := append(bytes.Clone(exporter[:]), ver...)
		for i := range len(unseen) * 8 {
			bad := bytes.Clone(unseen)
			bad[i/8] ^= 1 << (i % 8)
			if _, _, _, err := RekeyServer(rnd, [32]byte(bad[:32]), [][]byte{bad[32:]}, req); !fault.Is(err, fault.Protocol) {
				t.Fatalf("%v: secret and verification, bit %d: %v", set, i, err)
			}
		}
		if _, _, _, err := RekeyServer(rnd, exporter, [][]byte{PQVerification(CarriageB, "1,8")}, req); !fault.Is(err, fault.Protocol) {
			t.Error("other versions")
		}
		if !rnd.untouched() {
			t.Error("randomness was drawn for a forged request")
		}
		sst, reply, _, err := RekeyServer(rnd, exporter, [][]byte{ver}, req)
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(reply) * 8 {
			bad := bytes.Clone(reply)
			bad[i/8] ^= 1 << (i % 8)
			if _, _, err := client().Finish(bad); !fault.Is(err, fault.Protocol) {
				t.Fatalf("%v: reply bit %d: %v", set, i, err)
			}
		}
		st := client()
		if _, _, err := st.Finish(reply[:len(reply)-1]); !fault.Is(err, fault.Protocol) {
			t.Error("short reply")
		}
		if _, _, err := st.Finish(reply); !fault.Is(err, fault.Local) || st.exporter != [32]byte{} || st.kem.sk != nil {
			t.Error("a state was used twice")
		}
		confirm, _, err := client().Finish(reply)
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(confirm) * 8 {
			bad, c := bytes.Clone(confirm), *sst
			bad[i/8] ^= 1 << (i % 8)
			if err := c.Confirm(bad); !fault.Is(err, fault.Protocol) {
				t.Fatalf("%v: confirm bit %d: %v", set, i, err)
			}
		}
		c := *sst
		if c.Confirm(reply[len(reply)-32:]) == nil {
			t.Error("the relay's own confirmation was reflected")
		}
	}
	if _, _, err := RekeyClient(rand.Reader, 0, [32]byte{}, nil); err == nil {
		t.Error("an unknown parameter set was accepted")
	}
}
