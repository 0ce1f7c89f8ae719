package layer

import (
	"crypto/aes"
	"crypto/cipher"

	"github.com/chivenet/chive/internal/cell"
)

// portableUIV implements uiv with the standard library's AES and this package's
// portable POLYVAL. It allocates 2 KB per cell, because the library's AES
// allocates for every key and every counter.
type portableUIV struct {
	sense sense
	kb    cipher.Block // block cipher
	ku    gf128        // key of its tweak's hash
	k     cipher.Block // stream cipher
	b     gf128        // key of the hash that makes the stream's selector

	iv    [16]byte // first counter of the last stream
	left  [16]byte
	fresh [freshLen]byte
}

func (u *portableUIV) setKeys(k *[uivKeyLen]byte) {
	u.kb, u.ku = newAES(k[0:16]), loadGF((*[16]byte)(k[16:]))
	u.k, u.b = newAES(k[32:48]), loadGF((*[16]byte)(k[48:]))
}

func newAES(key []byte) cipher.Block {
	b, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // impossible: 16 bytes is a valid key length
	}
	return b
}

func (u *portableUIV) crypt(chain *[16]byte, cmd cell.Command, p *[cell.PayloadLen]byte) {
	u.left = *tagOf(p)
	if u.sense == decrypts {
		u.stream(&u.left, p[16:])
		selector := u.left
		m := u.mask(chain, cmd, p)
		xor16(&u.left, &m)
		u.kb.Decrypt(u.left[:], u.left[:])
		xor16(&u.left, &m)
		*chain = selector
	} else {
		m := u.mask(chain, cmd, p)
		xor16(&u.left, &m)
		u.kb.Encrypt(u.left[:], u.left[:])
		xor16(&u.left, &m)
		u.stream(&u.left, p[16:])
		*chain = u.left
	}
	*tagOf(p) = u.left
}

// mask returns the hash of chain | cmd | X_R, zero-padded to 32 blocks.
func (u *portableUIV) mask(chain *[16]byte, cmd cell.Command, p *[cell.PayloadLen]byte) (m [16]byte) {
	var hashed [512]byte
	copy(hashed[:], chain[:])
	hashed[16] = byte(cmd)
	copy(hashed[17:], p[16:])
	var acc gf128
	polyGeneric(&acc, &u.ku, hashed[:])
	acc.store(&m)
	return m
}

// stream xors dst with the stream that sel selects.
func (u *portableUIV) stream(sel *[16]byte, dst []byte) {
	loadGF(sel).dot(u.b).store(&u.iv)
	// Clear the counter's last six bits, so that 64 blocks need no carry.
	u.iv[15] &= 0xc0
	cipher.NewCTR(u.k, u.iv[:]).XORKeyStream(dst, dst)
}

func (u *portableUIV) rekey(nonce *[cgoTagLen]byte) {
	u.iv[15] += prfCounters
	cipher.NewCTR(u.k, u.iv[:]).XORKeyStream(u.fresh[:], u.fresh[:])
	u.setKeys((*[uivKeyLen]byte)(u.fresh[:]))
	*nonce = [cgoTagLen]byte(u.fresh[uivKeyLen:])
	clear(u.fresh[:])
}
