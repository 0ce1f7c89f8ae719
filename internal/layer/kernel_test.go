package layer

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"testing"
)

// The kernel and the standard library's AES agree.
func TestKernelAES(t *testing.T) {
	rnd := keyStream("aes")
	for n := range 200 {
		var key, block, iv [16]byte
		rnd.Read(key[:])
		rnd.Read(block[:])
		rnd.Read(iv[:])
		iv[15] &= 0xc0
		std, err := aes.NewCipher(key[:])
		if err != nil {
			t.Fatal(err)
		}
		var k aesKey
		k.set(&key)
		k.invert()
		got, want := block, block
		k.encrypt(&got)
		std.Encrypt(want[:], want[:])
		if got != want {
			t.Fatalf("encrypt: %x, not %x", got, want)
		}
		k.decrypt(&got)
		if got != block {
			t.Fatal("decrypt")
		}
		p := make([]byte, n*5) // up to 62 blocks, mostly not whole ones
		rnd.Read(p)
		q := bytes.Clone(p)
		first := iv
		k.counter(&iv, p)
		cipher.NewCTR(std, first[:]).XORKeyStream(q, q)
		if !bytes.Equal(p, q) {
			t.Fatalf("counter, %d bytes", len(p))
		}
	}
}

func BenchmarkPolyval(b *testing.B) {
	key := gf128{0x1234567890abcdef, 0xfedcba0987654321}
	p := make([]byte, 512)
	b.Run("kernel-or-portable", func(b *testing.B) {
		k := polyKey{}
		var kb [16]byte
		key.store(&kb)
		k.set(&kb)
		var acc gf128
		b.SetBytes(512)
		for b.Loop() {
			k.absorb(&acc, p)
		}
	})
	b.Run("portable", func(b *testing.B) {
		var acc gf128
		b.SetBytes(512)
		for b.Loop() {
			polyGeneric(&acc, &key, p)
		}
	})
}
