//go:build amd64 || arm64

package layer

import (
	"golang.org/x/sys/cpu"

	"github.com/chivenet/chive/internal/cell"
)

// CGO hashes whole payloads and uses new keys after every message. The standard
// library has no POLYVAL, and its AES allocates 512 bytes for every key and every
// counter: 2 KB and 2.8 us per cell. So there are kernels in assembly: this one
// for every amd64 with AES-NI and PCLMULQDQ and every arm64 with the
// cryptographic extension (AESE and PMULL), and two wider ones for amd64 with vector
// AES. Tests compare each with the portable form and the published vectors.

// haveKernel reports whether the CPU has the instructions that kernelUIV uses. In
// the variable of the other architecture, all fields are false.
var haveKernel = cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ && cpu.X86.HasSSE2 ||
	cpu.ARM64.HasAES && cpu.ARM64.HasPMULL

func kernelForms() []form {
	fs := wideForms()
	if haveKernel {
		fs = append(fs, form{"kernel", func(s sense) uiv { return &kernelUIV{sense: s} }})
	}
	return fs
}

// roundKeys are the eleven round keys of AES-128.
type roundKeys [11 * 16]byte

// kernelUIV implements uiv with 128-bit registers.
type kernelUIV struct {
	sense sense
	ku    hashKey   // key of the tweak's hash
	b     gf128     // key of the hash that makes the stream's selector
	kb    roundKeys // block cipher, in its sense
	k     roundKeys // stream cipher

	iv    [16]byte // first counter of the last stream
	fresh [128]byte
}

func (u *kernelUIV) setKeys(k *[uivKeyLen]byte) {
	aesExpand(&u.kb, (*[16]byte)(k[0:]))
	if u.sense == decrypts {
		var enc roundKeys
		enc, u.kb = u.kb, enc
		aesInvert(&u.kb, &enc)
	}
	u.ku[7] = loadGF((*[16]byte)(k[16:]))
	polyPowers(&u.ku)
	aesExpand(&u.k, (*[16]byte)(k[32:]))
	u.b = loadGF((*[16]byte)(k[48:]))
}

func (u *kernelUIV) crypt(chain *[16]byte, cmd cell.Command, p *[cell.PayloadLen]byte) {
	left, m := *tagOf(p), [16]byte{}
	if u.sense == decrypts {
		u.stream(&left, p)
		selector := left
		polyPayload(&m, &u.ku, chain, uint32(cmd), p)
		xor16(&left, &m)
		aesDecrypt(&u.kb, &left)
		xor16(&left, &m)
		*chain = selector
	} else {
		polyPayload(&m, &u.ku, chain, uint32(cmd), p)
		xor16(&left, &m)
		aesEncrypt(&u.kb, &left)
		xor16(&left, &m)
		u.stream(&left, p)
		*chain = left
	}
	*tagOf(p) = left
}

// stream xors X_R with the stream that sel selects.
func (u *kernelUIV) stream(sel *[16]byte, p *[cell.PayloadLen]byte) {
	s := loadGF(sel)
	polyDot(&s, &s, &u.b)
	s.store(&u.iv)
	// Clear the counter's last six bits, so that 64 blocks need no carry.
	u.iv[15] &= 0xc0
	aesPayload(&u.k, &u.iv, p)
}

func (u *kernelUIV) rekey(nonce *[cgoTagLen]byte) {
	u.iv[15] += prfCounters
	aesEight(&u.k, &u.iv, &u.fresh)
	u.setKeys((*[uivKeyLen]byte)(u.fresh[:]))
	*nonce = [cgoTagLen]byte(u.fresh[uivKeyLen:])
	clear(u.fresh[:])
}

// polyDot sets out to the dot product of a and b.
//
//go:noescape
func polyDot(out, a, b *gf128)

// polyPowers computes the other elements of k from the key in k[7].
//
//go:noescape
func polyPowers(k *hashKey)

// polyPayload sets out to the hash of chain | cmd | X_R.
//
//go:noescape
func polyPayload(out *[16]byte, k *hashKey, chain *[16]byte, cmd uint32, p *[cell.PayloadLen]byte)

// aesExpand is AES-128's key expansion.
//
//go:noescape
func aesExpand(enc *roundKeys, key *[16]byte)

// aesInvert turns encryption round keys into decryption round keys.
//
//go:noescape
func aesInvert(dec, enc *roundKeys)

// aesEncrypt encrypts one block in place.
//
//go:noescape
func aesEncrypt(enc *roundKeys, b *[16]byte)

// aesDecrypt decrypts one block in place.
//
//go:noescape
func aesDecrypt(dec *roundKeys, b *[16]byte)

// aesPayload xors X_R with the key stream that begins at counter block iv.
//
//go:noescape
func aesPayload(enc *roundKeys, iv *[16]byte, p *[cell.PayloadLen]byte)

// aesEight xors eight blocks with the key stream that begins at counter block
// iv.
//
//go:noescape
func aesEight(enc *roundKeys, iv *[16]byte, p *[128]byte)
