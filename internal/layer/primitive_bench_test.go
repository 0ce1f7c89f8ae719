package layer

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha1"
	"crypto/sha256"
	"testing"

	"github.com/chivenet/chive/internal/cell"
)

// What the standard library's primitives cost, to read the layers' costs by.

func newCTR(b *testing.B) cipher.Stream {
	c, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		b.Fatal(err)
	}
	return cipher.NewCTR(c, make([]byte, 16))
}

func benchCTR(b *testing.B, n int) {
	s, p := newCTR(b), make([]byte, n)
	b.SetBytes(int64(n))
	b.ReportAllocs()
	for b.Loop() {
		s.XORKeyStream(p, p)
	}
}

func BenchmarkAESCTREncrypt(b *testing.B)    { benchCTR(b, 1024) }
func BenchmarkAESCTRDecrypt(b *testing.B)    { benchCTR(b, 1024) } // the same work: the key stream is added
func BenchmarkAESCTREncrypt8KB(b *testing.B) { benchCTR(b, 8192) }
func BenchmarkAESCTRCell(b *testing.B)       { benchCTR(b, cell.PayloadLen) }

func BenchmarkAESCTREncryptParallel(b *testing.B) {
	b.SetBytes(1024)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		s, p := newCTR(b), make([]byte, 1024)
		for pb.Next() {
			s.XORKeyStream(p, p)
		}
	})
}

func BenchmarkSHA1(b *testing.B) {
	p := make([]byte, cell.PayloadLen)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		sha1.Sum(p)
	}
}

func BenchmarkSHA256(b *testing.B) {
	p := make([]byte, cell.PayloadLen)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		sha256.Sum256(p)
	}
}

func BenchmarkSHA256Parallel(b *testing.B) {
	p := make([]byte, cell.PayloadLen)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			sha256.Sum256(p)
		}
	})
}

// Both directions of an opened and sealed cell on every processor at once.
func BenchmarkLayerParallel(b *testing.B) {
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			b.SetBytes(cell.PayloadLen)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				c, r := pairOf(b, k)
				var p [cell.PayloadLen]byte
				for pb.Next() {
					c.Forward.Originate(cell.CmdRelay, &p)
					if !r.Forward.Open(cell.CmdRelay, &p) {
						b.Error("not recognised")
						return
					}
				}
			})
		})
	}
}
