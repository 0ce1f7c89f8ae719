#include "textflag.h"
#include "wide_amd64.h"

// AES-128 in counter mode on 512-bit registers, over one payload. Every call
// runs the same instructions.

DATA count<>+0(SB)/8, $0
DATA count<>+16(SB)/8, $1
DATA count<>+32(SB)/8, $2
DATA count<>+48(SB)/8, $3
GLOBL count<>(SB), RODATA|NOPTR, $64

DATA bigEndian<>+0(SB)/8, $0x08090a0b0c0d0e0f
DATA bigEndian<>+8(SB)/8, $0x0001020304050607
GLOBL bigEndian<>(SB), RODATA|NOPTR, $16

DATA next<>+0(SB)/8, $4
GLOBL next<>(SB), RODATA|NOPTR, $16

#define COUNT(x) \
	VPSHUFB Z13, Z14, x;   \
	VPADDQ  Z12, Z14, Z14; \
	VPXORQ  Z11, x, x

// The key stream's blocks do not begin where a payload does: 509 bytes are no
// whole number of them. So the payload is taken from off bytes before its
// start, block by block, and masks keep what is not part of it untouched.

// func wideCounter(k *roundKeys, pos uint64, p *[cell.PayloadLen]byte)
TEXT ·wideCounter(SB), NOSPLIT, $0-24
	MOVQ k+0(FP), DI
	MOVQ pos+8(FP), DX
	MOVQ p+16(FP), SI

	// K1, K2 and K3 are for the first register, the eighth and the ninth, of
	// which the bytes from off, to off+61 and to off-3 are the payload's.
	MOVQ  DX, CX
	ANDQ  $15, CX
	SUBQ  CX, SI
	MOVQ  $-1, AX
	SHLQ  CX, AX
	KMOVQ AX, K1
	NOTQ  AX
	SHRQ  $3, AX
	KMOVQ AX, K3
	ADDQ  $61, CX
	MOVQ  $-1, AX
	BZHIQ CX, AX, AX // all of them from 64 on
	KMOVQ AX, K2

	SHRQ            $4, DX
	VMOVQ           DX, X14
	VSHUFI64X2      $0, Z14, Z14, Z14
	VPADDQ          count<>(SB), Z14, Z14
	VBROADCASTI32X4 bigEndian<>(SB), Z13
	VBROADCASTI32X4 next<>(SB), Z12
	VBROADCASTI32X4 (DI), Z11
	COUNT(Z16)
	COUNT(Z17)
	COUNT(Z18)
	COUNT(Z19)
	COUNT(Z20)
	COUNT(Z21)
	COUNT(Z22)
	COUNT(Z23)
	COUNT(Z24)
	ROUND9(16(DI))
	ROUND9(32(DI))
	ROUND9(48(DI))
	ROUND9(64(DI))
	ROUND9(80(DI))
	ROUND9(96(DI))
	ROUND9(112(DI))
	ROUND9(128(DI))
	ROUND9(144(DI))
	LAST9(160(DI))

	VMOVDQU8.Z (SI), K1, Z0
	VMOVDQU8.Z 448(SI), K2, Z7
	VMOVDQU8.Z 512(SI), K3, Z8
	VPXORQ     Z16, Z0, Z0
	VPXORQ     64(SI), Z17, Z1
	VPXORQ     128(SI), Z18, Z2
	VPXORQ     192(SI), Z19, Z3
	VPXORQ     256(SI), Z20, Z4
	VPXORQ     320(SI), Z21, Z5
	VPXORQ     384(SI), Z22, Z6
	VPXORQ     Z23, Z7, Z7
	VPXORQ     Z24, Z8, Z8
	VMOVDQU8   Z0, K1, (SI)
	VMOVDQU64  Z1, 64(SI)
	VMOVDQU64  Z2, 128(SI)
	VMOVDQU64  Z3, 192(SI)
	VMOVDQU64  Z4, 256(SI)
	VMOVDQU64  Z5, 320(SI)
	VMOVDQU64  Z6, 384(SI)
	VMOVDQU8   Z7, K2, 448(SI)
	VMOVDQU8   Z8, K3, 512(SI)
	VZEROUPPER
	RET
