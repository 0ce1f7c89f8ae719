package fte

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/binary"
	"hash"
	"io"

	"github.com/chivenet/chive/internal/fault"
)

// The classic protocol's authenticated encryption (fteproxy calls it the
// encrypter): C = W1 || W2 || T with
//
//	W1 = AES-128-ECB_K1(0x01 || IV[7] || u64be |P|)
//	W2 = AES-128-CTR_K1(P), first counter block 0^8 || 0x02 || IV
//	T  = HMAC-SHA512_K2(W1 || W2)[:16]
const (
	classicHead      = aes.BlockSize // W1
	classicTag       = 16            // T
	classicExpansion = classicHead + classicTag

	classicCounterTop = uint64(2) << 56
	classicIVMask     = uint64(1)<<56 - 1
)

// classicAE is one direction's state of the scheme. It keeps one CTR stream as long
// as each record's IV continues where the last record's counter stopped. Our sealing
// side always does so: the IVs of one connection never overlap, and a record needs no
// allocation. An observer without K1 cannot see it, because the IV is encrypted in
// W1.
type classicAE struct {
	block cipher.Block
	mac   hash.Hash
	ctr   cipher.Stream
	next  uint64 // low half of the next counter block of ctr
	ready bool   // ctr and next are valid
	sum   [sha512.Size]byte
	blk   [aes.BlockSize]byte
	pad   [aes.BlockSize]byte
}

func newClassicAE(key *Key) *classicAE {
	block, err := aes.NewCipher(key[:16])
	if err != nil {
		panic(err) // the key's length is fixed by its type
	}
	return &classicAE{block: block, mac: hmac.New(sha512.New, key[16:])}
}

// seek moves the CTR stream to the counter block whose low half is at.
func (a *classicAE) seek(at uint64) {
	if a.ready && a.next == at {
		return
	}
	clear(a.blk[:8])
	binary.BigEndian.PutUint64(a.blk[8:], at)
	a.ctr = cipher.NewCTR(a.block, a.blk[:])
	a.next, a.ready = at, true
}

// crypt applies the keystream to p and leaves the stream at a block boundary.
func (a *classicAE) crypt(p []byte) {
	a.ctr.XORKeyStream(p, p)
	if rest := len(p) % aes.BlockSize; rest != 0 {
		n := aes.BlockSize - rest
		a.ctr.XORKeyStream(a.pad[:n], a.pad[:n])
	}
	a.next += uint64(len(p)+aes.BlockSize-1) / aes.BlockSize
	if a.next>>56 != classicCounterTop>>56 {
		a.ready = false // an IV cannot name a block after 0x02 || FF^7
	}
}

// seal encrypts c[16 : len(c)-16] in place and fills in W1 and T around it.
func (a *classicAE) seal(c []byte, rand io.Reader) error {
	if !a.ready {
		if _, err := io.ReadFull(rand, a.blk[:8]); err != nil {
			return fault.New(fault.Local, "reading randomness for an IV: %w", err)
		}
		iv := binary.BigEndian.Uint64(a.blk[:8]) & classicIVMask
		a.seek(classicCounterTop | iv)
	}
	n := len(c) - classicExpansion
	w1 := c[:classicHead]
	binary.BigEndian.PutUint64(w1, a.next)
	w1[0] = 1
	binary.BigEndian.PutUint64(w1[8:], uint64(n))
	a.block.Encrypt(w1, w1)
	a.crypt(c[classicHead : classicHead+n])
	a.mac.Reset()
	a.mac.Write(c[:classicHead+n])
	copy(c[classicHead+n:], a.mac.Sum(a.sum[:0])[:classicTag])
	return nil
}

// length reads W1 and returns the plaintext's length and the low half of the
// first counter block.
func (a *classicAE) length(w1 []byte) (n int, at uint64, err error) {
	a.block.Decrypt(a.blk[:], w1[:classicHead])
	l := binary.BigEndian.Uint64(a.blk[8:])
	if a.blk[0] != 1 || l > MaxClassicCell {
		return 0, 0, fault.New(fault.Protocol, "a classic record's first block doesn't decrypt to a header")
	}
	at = binary.BigEndian.Uint64(a.blk[:8])&classicIVMask | classicCounterTop
	return int(l), at, nil
}

// open checks and decrypts c in place and returns the plaintext, which aliases it.
func (a *classicAE) open(c []byte) ([]byte, error) {
	if len(c) < classicExpansion {
		return nil, fault.New(fault.Protocol, "a classic record of %d bytes is too short", len(c))
	}
	n, at, err := a.length(c)
	if err != nil {
		return nil, err
	}
	if n != len(c)-classicExpansion {
		return nil, fault.New(fault.Protocol, "a classic record's length is wrong")
	}
	a.mac.Reset()
	a.mac.Write(c[:classicHead+n])
	if subtle.ConstantTimeCompare(a.mac.Sum(a.sum[:0])[:classicTag], c[classicHead+n:]) != 1 {
		return nil, fault.New(fault.Protocol, "a classic record isn't authentic")
	}
	a.seek(at)
	p := c[classicHead : classicHead+n]
	a.crypt(p)
	return p, nil
}
