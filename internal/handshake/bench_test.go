package handshake

import (
	"crypto/rand"
	"testing"

	"github.com/chivenet/chive/internal/ident"
)

func BenchmarkKDFTor(b *testing.B) {
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
		st, skin, _ := NtorClient(rand.Reader, ident.RSAID{}, k.Public())
		b.StopTimer()
		reply, _, err := NtorServer(rand.Reader, []*NtorKeyPair{k}, ident.RSAID{}, skin)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, err := st.Finish(reply); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNtorServer(b *testing.B) {
	k := pair(b)
	_, skin, _ := NtorClient(rand.Reader, ident.RSAID{}, k.Public())
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := NtorServer(rand.Reader, []*NtorKeyPair{k}, ident.RSAID{}, skin); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNtorV3Client(b *testing.B) {
	k := pair(b)
	ver := []byte(NtorV3CircuitVerification)
	b.ReportAllocs()
	for b.Loop() {
		st, skin, _ := NtorV3Client(rand.Reader, ident.Ed25519ID{}, k.Public(), ver, []byte{0})
		b.StopTimer()
		reply, _, err := NtorV3Server(rand.Reader, []*NtorKeyPair{k}, ident.Ed25519ID{}, ver, skin, echo)
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
	ver := []byte(NtorV3CircuitVerification)
	_, skin, _ := NtorV3Client(rand.Reader, ident.Ed25519ID{}, k.Public(), ver, []byte{0})
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := NtorV3Server(rand.Reader, []*NtorKeyPair{k}, ident.Ed25519ID{}, ver, skin, echo); err != nil {
			b.Fatal(err)
		}
	}
}
