package layer

import (
	"crypto/aes"
	"crypto/cipher"
)

// CGO hashes whole payloads and takes new keys with every message. The
// standard library has no POLYVAL, and its AES allocates 512 bytes for every
// key and every counter: 2 KB and 2.8 us a cell with the portable POLYVAL,
// where the kernel of this package takes 0.3 us and allocates nothing. Hence a
// kernel for amd64 (AES-NI and PCLMULQDQ) and for arm64 (the cryptographic
// extension: AESE and PMULL), and the portable form everywhere else. Tests hold
// each against the portable form and the published vectors.

// polyKey is a POLYVAL key; with the kernel, its powers 4, 3, 2, 1.
type polyKey struct{ pow [4]gf128 }

func (k *polyKey) set(key *[16]byte) {
	k.pow[3] = loadGF(key)
	if haveKernel {
		polyPowers(&k.pow)
	}
}

// absorb adds whole blocks to acc.
func (k *polyKey) absorb(acc *gf128, blocks []byte) {
	if !haveKernel {
		polyGeneric(acc, &k.pow[3], blocks)
		return
	}
	if n := len(blocks) / 64; n > 0 {
		polyGroups(acc, &k.pow, &blocks[0], n)
		blocks = blocks[64*n:]
	}
	for ; len(blocks) >= 16; blocks = blocks[16:] {
		x := loadGF((*[16]byte)(blocks))
		x.lo ^= acc.lo
		x.hi ^= acc.hi
		polyDot(acc, &x, &k.pow[3])
	}
}

// roundKeys are the eleven round keys of AES-128.
type roundKeys [11 * 16]byte

// aesKey is an AES-128 key: round keys for the kernel, or the standard
// library's block cipher.
type aesKey struct {
	enc, dec roundKeys
	block    cipher.Block
}

func (k *aesKey) set(key *[16]byte) {
	if haveKernel {
		aesExpand(&k.enc, key)
		return
	}
	b, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // 16 bytes is a key length
	}
	k.block = b
}

// invert prepares a key that was set for decrypt.
func (k *aesKey) invert() {
	if haveKernel {
		aesInvert(&k.dec, &k.enc)
	}
}

func (k *aesKey) encrypt(b *[16]byte) {
	if haveKernel {
		aesEncrypt(&k.enc, b)
	} else {
		k.block.Encrypt(b[:], b[:])
	}
}

func (k *aesKey) decrypt(b *[16]byte) {
	if haveKernel {
		aesDecrypt(&k.dec, b)
	} else {
		k.block.Decrypt(b[:], b[:])
	}
}

// counter xors dst with the key stream from counter block iv, whose last byte
// must not overflow.
func (k *aesKey) counter(iv *[16]byte, dst []byte) {
	if !haveKernel {
		cipher.NewCTR(k.block, iv[:]).XORKeyStream(dst, dst)
		return
	}
	if n := len(dst) / 128; n > 0 {
		aesCounter8(&k.enc, iv, &dst[0], n)
		dst = dst[128*n:]
		iv[15] += byte(8 * n)
	}
	if len(dst) > 0 {
		var rest [128]byte
		copy(rest[:], dst)
		aesCounter8(&k.enc, iv, &rest[0], 1)
		copy(dst, rest[:])
	}
}
