//go:build amd64 || arm64

package layer

import (
	"golang.org/x/sys/cpu"

	"github.com/chivenet/chive/internal/cell"
)

// CGO hashes whole payloads and takes new keys with every message. The
// standard library has no POLYVAL, and its AES allocates 512 bytes for every
// key and every counter: 2 KB and 2.8 us a cell. Hence kernels in assembly:
// this one for every amd64 with AES-NI and PCLMULQDQ and every arm64 with the
// cryptographic extension (AESE and PMULL), and a wider one for amd64's vector
// AES. Tests hold each against the portable form and the published vectors.

// haveKernel reports whether the CPU has the instructions that kernelUIV
// uses. Of the two variables, the one of the other architecture is empty.
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

// kernelUIV is uiv with 128-bit registers.
type kernelUIV struct {
	sense sense
	ku    [4]gf128  // hash of the tweak: the key's powers 4, 3, 2, 1
	b     gf128     // hash of the stream's selector
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
	u.ku[3] = loadGF((*[16]byte)(k[16:]))
	polyPowers(&u.ku)
	aesExpand(&u.k, (*[16]byte)(k[32:]))
	u.b = loadGF((*[16]byte)(k[48:]))
}

func (u *kernelUIV) crypt(chain *[16]byte, cmd cell.Command, p *[cell.PayloadLen]byte) {
	left := *tagOf(p)
	if u.sense == decrypts {
		u.stream(&left, p)
		selector := left
		m := u.mask(chain, cmd, p)
		xor16(&left, &m)
		aesDecrypt(&u.kb, &left)
		xor16(&left, &m)
		*chain = selector
	} else {
		m := u.mask(chain, cmd, p)
		xor16(&left, &m)
		aesEncrypt(&u.kb, &left)
		xor16(&left, &m)
		u.stream(&left, p)
		*chain = left
	}
	*tagOf(p) = left
}

// mask hashes chain | cmd | X_R.
func (u *kernelUIV) mask(chain *[16]byte, cmd cell.Command, p *[cell.PayloadLen]byte) (m [16]byte) {
	var head, tail [64]byte
	middle := hashed(&head, &tail, chain, cmd, p)
	var acc gf128
	polyGroups(&acc, &u.ku, &head[0], 1)
	polyGroups(&acc, &u.ku, &middle[0], len(middle)/64)
	polyGroups(&acc, &u.ku, &tail[0], 1)
	acc.store(&m)
	return m
}

// stream xors X_R with the stream that sel selects.
func (u *kernelUIV) stream(sel *[16]byte, p *[cell.PayloadLen]byte) {
	s := loadGF(sel)
	polyDot(&s, &s, &u.b)
	s.store(&u.iv)
	// The counter's last six bits are cleared: 64 blocks without a carry.
	u.iv[15] &= 0xc0
	const whole = 3 * 128
	aesCounter8(&u.k, &u.iv, &p[16], 3)
	var rest [128]byte
	n := copy(rest[:], p[16+whole:])
	iv := u.iv
	iv[15] += whole / 16
	aesCounter8(&u.k, &iv, &rest[0], 1)
	copy(p[16+whole:], rest[:n])
}

func (u *kernelUIV) rekey(nonce *[cgoTagLen]byte) {
	u.iv[15] += prfCounters
	aesCounter8(&u.k, &u.iv, &u.fresh[0], 1)
	u.setKeys((*[uivKeyLen]byte)(u.fresh[:]))
	*nonce = [cgoTagLen]byte(u.fresh[uivKeyLen:])
	clear(u.fresh[:])
}

// polyDot sets out to the dot product of a and b.
//
//go:noescape
func polyDot(out, a, b *gf128)

// polyPowers fills the powers 4, 3 and 2 of the key that stands in pow[3].
//
//go:noescape
func polyPowers(pow *[4]gf128)

// polyGroups absorbs groups (at least one) of four blocks at p.
//
//go:noescape
func polyGroups(acc *gf128, pow *[4]gf128, p *byte, groups int)

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

// aesCounter8 xors groups (at least one) of eight blocks at p with the key
// stream that begins at counter block iv.
//
//go:noescape
func aesCounter8(enc *roundKeys, iv *[16]byte, p *byte, groups int)
