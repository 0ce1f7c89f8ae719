//go:build amd64 || arm64

package layer

import "golang.org/x/sys/cpu"

// haveKernel reports whether the CPU has the instructions that the kernel
// uses. Of the two variables, the one of the other architecture is empty.
var haveKernel = cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ && cpu.X86.HasSSE2 ||
	cpu.ARM64.HasAES && cpu.ARM64.HasPMULL

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
