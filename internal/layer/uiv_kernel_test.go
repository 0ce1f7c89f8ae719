//go:build amd64 || arm64

package layer

import (
	"crypto/aes"
	"crypto/cipher"
	"testing"
)

// The kernel's parts do what the standard library's AES and the reference's
// POLYVAL do.
func TestKernelParts(t *testing.T) {
	if !haveKernel {
		t.Skip("this CPU has no instructions for AES, or none for carry-less products")
	}
	rnd := keyStream("kernel parts")
	for range 200 {
		var key, block, iv [16]byte
		rnd.Read(key[:])
		rnd.Read(block[:])
		rnd.Read(iv[:])
		iv[15] &= 0xc0
		std, err := aes.NewCipher(key[:])
		if err != nil {
			t.Fatal(err)
		}
		var enc, dec roundKeys
		aesExpand(&enc, &key)
		aesInvert(&dec, &enc)
		got, want := block, block
		aesEncrypt(&enc, &got)
		std.Encrypt(want[:], want[:])
		if got != want {
			t.Fatalf("encrypt: %x, not %x", got, want)
		}
		aesDecrypt(&dec, &got)
		if got != block {
			t.Fatal("decrypt")
		}
		var p [128]byte
		rnd.Read(p[:])
		q := p
		aesEight(&enc, &iv, &p)
		cipher.NewCTR(std, iv[:]).XORKeyStream(q[:], q[:])
		if p != q {
			t.Fatal("counter")
		}
		k := hashKey{7: loadGF(&key)}
		polyPowers(&k)
		for i, want := 7, k[7]; i >= 0; i, want = i-1, slowDot(want, k[7]) {
			if k[i] != want {
				t.Fatalf("power %d", 8-i)
			}
		}
		x := loadGF(&block)
		if polyDot(&x, &x, &k[7]); x != slowDot(loadGF(&block), loadGF(&key)) {
			t.Fatal("product")
		}
	}
}
