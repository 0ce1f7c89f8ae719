#include "textflag.h"

// AES-128 in counter mode on 256-bit registers, two blocks in each. Every call runs
// the same instructions.

DATA first<>+0(SB)/8, $0
DATA first<>+8(SB)/8, $0
DATA first<>+16(SB)/8, $1
DATA first<>+24(SB)/8, $0
GLOBL first<>(SB), RODATA|NOPTR, $32

DATA step<>+0(SB)/8, $2
DATA step<>+8(SB)/8, $0
GLOBL step<>(SB), RODATA|NOPTR, $16

DATA reverse<>+0(SB)/8, $0x08090a0b0c0d0e0f
DATA reverse<>+8(SB)/8, $0x0001020304050607
GLOBL reverse<>(SB), RODATA|NOPTR, $16

#define COUNTER(x) \
	VPSHUFB Y12, Y15, x;   \
	VPADDQ  Y14, Y15, Y15; \
	VPXOR   Y13, x, x

#define ROUND6(ROUND, off) \
	VBROADCASTI128 off(SI), Y13; \
	ROUND          Y13, Y0, Y0;  \
	ROUND          Y13, Y1, Y1;  \
	ROUND          Y13, Y2, Y2;  \
	ROUND          Y13, Y3, Y3;  \
	ROUND          Y13, Y4, Y4;  \
	ROUND          Y13, Y5, Y5

#define MASK(off) \
	VMOVDQU off(BX), Y0;     \
	VPXOR   off(DI), Y0, Y0; \
	VMOVDQU Y0, off(DI)

// func vectorCounter(k *roundKeys, pos uint64, p *[cell.PayloadLen]byte)
//
// The key stream's blocks do not begin where a payload does. So 36 blocks of it go
// to the stack first.
TEXT ·vectorCounter(SB), 0, $576-24
	MOVQ           k+0(FP), SI
	MOVQ           pos+8(FP), DX
	MOVQ           p+16(FP), DI
	LEAQ           stream-576(SP), BX
	MOVQ           DX, AX
	SHRQ           $4, AX
	VMOVQ          AX, X15
	VINSERTI128    $1, X15, Y15, Y15
	VPADDQ         first<>(SB), Y15, Y15
	VBROADCASTI128 step<>(SB), Y14
	VBROADCASTI128 reverse<>(SB), Y12
	MOVQ           BX, R8
	MOVQ           $3, CX

twelve:
	VBROADCASTI128 (SI), Y13
	COUNTER(Y0)
	COUNTER(Y1)
	COUNTER(Y2)
	COUNTER(Y3)
	COUNTER(Y4)
	COUNTER(Y5)
	ROUND6(VAESENC, 16)
	ROUND6(VAESENC, 32)
	ROUND6(VAESENC, 48)
	ROUND6(VAESENC, 64)
	ROUND6(VAESENC, 80)
	ROUND6(VAESENC, 96)
	ROUND6(VAESENC, 112)
	ROUND6(VAESENC, 128)
	ROUND6(VAESENC, 144)
	ROUND6(VAESENCLAST, 160)
	VMOVDQU        Y0, (R8)
	VMOVDQU        Y1, 32(R8)
	VMOVDQU        Y2, 64(R8)
	VMOVDQU        Y3, 96(R8)
	VMOVDQU        Y4, 128(R8)
	VMOVDQU        Y5, 160(R8)
	ADDQ           $192, R8
	DECQ           CX
	JNZ            twelve

	// The last 32 bytes overlap those before, so they are read first.
	ANDQ    $15, DX
	ADDQ    DX, BX
	VMOVDQU 477(DI), Y1
	MASK(0)
	MASK(32)
	MASK(64)
	MASK(96)
	MASK(128)
	MASK(160)
	MASK(192)
	MASK(224)
	MASK(256)
	MASK(288)
	MASK(320)
	MASK(352)
	MASK(384)
	MASK(416)
	MASK(448)
	VPXOR   477(BX), Y1, Y1
	VMOVDQU Y1, 477(DI)
	VZEROUPPER
	RET
