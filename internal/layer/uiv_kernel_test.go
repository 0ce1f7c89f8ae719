//go:build amd64 || arm64

package layer

import (
	"bytes"
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
		groups := 1 + n%8
		p := make([]byte, 128*groups)
		rnd.Read(p)
		q := bytes.Clone(p)
		aesCounter8(&enc, &iv, &p[0], groups)
		cipher.NewCTR(std, iv[:]).XORKeyStream(q, q)
		if !bytes.Equal(p, q) {
			t.Fatalf("counter, %d groups", groups)
		}
		pow := [4]gf128{3: loadGF(&key)}
		polyPowers(&pow)
		var acc gf128
		polyGroups(&acc, &pow, &p[0], 2*groups)
		if acc.store(&got); got != slowPolyval(key, p) {
			t.Fatalf("POLYVAL, %d groups of eight blocks", groups)
		}
		x := loadGF(&block)
		if polyDot(&x, &x, &pow[3]); x != slowDot(loadGF(&block), loadGF(&key)) {
			t.Fatal("product")
		}
	}
}
