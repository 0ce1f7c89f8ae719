package layer

import (
	"golang.org/x/sys/cpu"

	"github.com/chivenet/chive/internal/cell"
)

// haveWide reports whether the CPU has AES and carry-less products on 512-bit
// registers, and permutations of bytes across them.
var haveWide = cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ && cpu.X86.HasAVX2 && cpu.X86.HasBMI2 &&
	cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL &&
	cpu.X86.HasAVX512VBMI && cpu.X86.HasAVX512VAES && cpu.X86.HasAVX512VPCLMULQDQ

func wideForms() (fs []form) {
	if haveWide {
		fs = append(fs, form{"wide", func(s sense) uiv { return &wideUIV{sense: s} }})
	}
	if haveVector {
		fs = append(fs, form{"vector", func(s sense) uiv { return &vectorUIV{kernelUIV{sense: s}} }})
	}
	return fs
}

// wideUIV implements uiv with 512-bit registers. A payload stays in eight of them
// from the first byte read to the last byte written, and the 32 blocks of the hash
// share one reduction.
type wideUIV struct {
	ku    [32]gf128 // key of the tweak's hash: its powers 32 to 1
	b     gf128     // key of the hash that makes the stream's selector
	kb    roundKeys // block cipher, in its sense
	k     roundKeys // stream cipher
	fresh [freshLen]byte
	sense sense
}

func (u *wideUIV) setKeys(k *[uivKeyLen]byte) {
	if u.sense == decrypts {
		wideKeysDecrypt(u, k)
	} else {
		wideKeysEncrypt(u, k)
	}
}

func (u *wideUIV) crypt(chain *[16]byte, cmd cell.Command, p *[cell.PayloadLen]byte) {
	if u.sense == decrypts {
		wideDecrypt(u, chain, uint32(cmd), p)
	} else {
		wideEncrypt(u, chain, uint32(cmd), p)
	}
}

// rekey takes the stream's second part from fresh. It is cheaper for crypt to
// always compute it together with the first part than to compute it later on
// request.
func (u *wideUIV) rekey(nonce *[cgoTagLen]byte) {
	*nonce = [cgoTagLen]byte(u.fresh[uivKeyLen:])
	u.setKeys((*[uivKeyLen]byte)(u.fresh[:]))
	clear(u.fresh[:])
}

// wideEncrypt is crypt of a uiv that encrypts. It stores new keys and a new nonce
// in u.fresh.
//
//go:noescape
func wideEncrypt(u *wideUIV, chain *[16]byte, cmd uint32, p *[cell.PayloadLen]byte)

// wideDecrypt is crypt of a uiv that decrypts.
//
//go:noescape
func wideDecrypt(u *wideUIV, chain *[16]byte, cmd uint32, p *[cell.PayloadLen]byte)

// wideKeysEncrypt is setKeys of a uiv that encrypts.
//
//go:noescape
func wideKeysEncrypt(u *wideUIV, k *[uivKeyLen]byte)

// wideKeysDecrypt is setKeys of a uiv that decrypts.
//
//go:noescape
func wideKeysDecrypt(u *wideUIV, k *[uivKeyLen]byte)
