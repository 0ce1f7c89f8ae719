package handshake

import (
	"crypto/rand"
	"testing"

	"github.com/chivenet/chive/internal/ident"
)

func BenchmarkKDFTOR(b *testing.B) {
	b.ReportAllocs()
	x := make([]byte, 20)
	for b.Loop() {
		newKDFTor(x, x).fill(make([]byte, 112))
	}
}

func BenchmarkNtorClient(b *testing.B) {
	k := pair(b)
	b.ReportAllocs()
	for b.Loop() {
		st, skin, _ := ntorClient(rand.Reader, ident.RSAID{}, k.Public())
		b.StopTimer()
		reply, _, err := ntorServer(rand.Reader, []*NtorKeyPair{k}, ident.RSAID{}, skin)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, _, err := st.Finish(reply); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNtorServer(b *testing.B) {
	k := pair(b)
	_, skin, _ := ntorClient(rand.Reader, ident.RSAID{}, k.Public())
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := ntorServer(rand.Reader, []*NtorKeyPair{k}, ident.RSAID{}, skin); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNtorV3Client(b *testing.B) {
	k := pair(b)
	ver := []byte(ntor3Verification)
	b.ReportAllocs()
	for b.Loop() {
		st, skin, _ := ntor3.client(rand.Reader, ident.Ed25519ID{}, k.Public(), ver, []byte{0})
		b.StopTimer()
		reply, _, err := ntor3.serve(rand.Reader, []*NtorKeyPair{k}, ident.Ed25519ID{}, [][]byte{ver}, skin, echo)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, _, err := st.Finish(reply); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNtorV3Server(b *testing.B) {
	k := pair(b)
	ver := []byte(ntor3Verification)
	_, skin, _ := ntor3.client(rand.Reader, ident.Ed25519ID{}, k.Public(), ver, []byte{0})
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := ntor3.serve(rand.Reader, []*NtorKeyPair{k}, ident.Ed25519ID{}, [][]byte{ver}, skin, echo); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPQ(b *testing.B) {
	for set := PQ512; set <= PQ1024; set++ {
		h := newHop(b, set)
		b.Run(set.String()+"/keygen", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var k kemKey
				if _, err := k.generate(rand.Reader, set); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(set.String()+"/client", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				st, skin, _ := hybrid(set).client(rand.Reader, h.id, h.key.Public(), h.ver, []byte{0})
				b.StopTimer()
				reply, _, err := h.server(skin, rand.Reader, echo)
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if _, _, err := st.Finish(reply); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(set.String()+"/server", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := h.server(h.skin, rand.Reader, echo); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(set.String()+"/server-refusing", func(b *testing.B) {
			bad := append([]byte(nil), h.skin...)
			bad[200]++
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := h.server(bad, rand.Reader, echo); err == nil {
					b.Fatal("accepted")
				}
			}
		})
		b.Run(set.String()+"/both-sides", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				st, skin, _ := hybrid(set).client(rand.Reader, h.id, h.key.Public(), h.ver, []byte{0})
				reply, _, err := h.server(skin, rand.Reader, echo)
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := st.Finish(reply); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(set.String()+"/rekey-both-sides", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				st, req, _ := RekeyClient(rand.Reader, set, [32]byte{1}, h.ver)
				sst, reply, _, err := RekeyServer(rand.Reader, [32]byte{1}, [][]byte{h.ver}, req)
				if err != nil {
					b.Fatal(err)
				}
				confirm, _, err := st.Finish(reply)
				if err != nil {
					b.Fatal(err)
				}
				if err := sst.Confirm(confirm); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
