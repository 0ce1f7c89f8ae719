package layer

import (
	"golang.org/x/sys/cpu"

	"github.com/chivenet/chive/internal/cell"
)

// haveVector reports whether the CPU has AES and carry-less products on 256-bit
// registers. The package cpu looks for these instructions only where it finds
// 512-bit registers, and AMD's third EPYC and most of Intel's desktop CPUs have
// none.
var haveVector = haveKernel && cpu.X86.HasAVX2 && leaf7()&(vaes|vpclmulqdq) == vaes|vpclmulqdq

// Bits of CPUID's leaf 7.
const (
	vaes       = 1 << 9
	vpclmulqdq = 1 << 10
)

// leaf7 returns the third register of CPUID's leaf 7, which every CPU with AVX2 has.
func leaf7() uint32

// vectorUIV is kernelUIV with two blocks in a register. All of crypt is one function
// in assembly: values that go from one function to the next through memory cost
// nearly as much as the work.
type vectorUIV struct{ kernelUIV }

func (u *vectorUIV) crypt(chain *[16]byte, cmd cell.Command, p *[cell.PayloadLen]byte) {
	if u.sense == decrypts {
		vectorDecrypt(&u.kernelUIV, chain, uint32(cmd), p)
	} else {
		vectorEncrypt(&u.kernelUIV, chain, uint32(cmd), p)
	}
}

// vectorEncrypt is crypt of a uiv that encrypts.
//
//go:noescape
func vectorEncrypt(u *kernelUIV, chain *[16]byte, cmd uint32, p *[cell.PayloadLen]byte)

// vectorDecrypt is crypt of a uiv that decrypts.
//
//go:noescape
func vectorDecrypt(u *kernelUIV, chain *[16]byte, cmd uint32, p *[cell.PayloadLen]byte)
