#include "go_asm.h"
#include "textflag.h"
#include "wide_amd64.h"

// The keys of UIV+ for 512-bit registers: both key expansions at once, and
// between their steps, which wait for each other, the powers of the hash key.

// The last word of a block, rotated by one byte, four times.
DATA rotated<>+0(SB)/8, $0x0c0f0e0d0c0f0e0d
DATA rotated<>+8(SB)/8, $0x0c0f0e0d0c0f0e0d
GLOBL rotated<>(SB), RODATA|NOPTR, $16

DATA rcon<>+0(SB)/4, $0x01
DATA rcon<>+4(SB)/4, $0x02
DATA rcon<>+8(SB)/4, $0x04
DATA rcon<>+12(SB)/4, $0x08
DATA rcon<>+16(SB)/4, $0x10
DATA rcon<>+20(SB)/4, $0x20
DATA rcon<>+24(SB)/4, $0x40
DATA rcon<>+28(SB)/4, $0x80
DATA rcon<>+32(SB)/4, $0x1b
DATA rcon<>+36(SB)/4, $0x36
GLOBL rcon<>(SB), RODATA|NOPTR, $40

// EXPAND makes the next round keys of the block cipher, in Y0's lower half, and
// of the stream cipher, in its upper half. All four words of Y1 are the same,
// and do not notice that VAESENCLAST shifts rows.
#define EXPAND(n) \
	VPSHUFB      Y5, Y0, Y1;             \
	VPBROADCASTD rcon<>+4*(n-1)(SB), Y2; \
	VAESENCLAST  Y2, Y1, Y1;             \
	VPSLLDQ      $4, Y0, Y3;             \
	VPXOR        Y3, Y0, Y0;             \
	VPSLLDQ      $8, Y0, Y3;             \
	VPTERNLOGQ   $0x96, Y3, Y1, Y0;      \
	VEXTRACTI128 $1, Y0, wideUIV_k+16*n(DI)

#define ENCKEY(n) \
	EXPAND(n); \
	VMOVDQU X0, wideUIV_kb+16*n(DI)

#define DECKEY(n) \
	EXPAND(n);      \
	VAESIMC X0, X4; \
	VMOVDQU X4, wideUIV_kb+16*(10-n)(DI)

// DOT sets out to the dot product of a and b, block by block.
#define DOT(a, b, out) \
	MUL(a, b, Z20, Z21, Z22, Z23);        \
	REDUCE(Z20, Z21, Z22, Z31, Z23, Z24); \
	VMOVDQA64 Z22, out

#define SPREAD(from, to) VSHUFI64X2 $0, from, from, to

// POWERS2 to POWERS32 make twice as many powers of the key in Z17's first block
// each, and store them, highest first, in Z10 to Z17. They clobber Z18 to Z24.
#define POWERS2 \
	DOT(Z17, Z17, Z16); \
	VINSERTI64X2 $1, X17, Y16, Y16

#define POWERS4 \
	SPREAD(Z16, Z18);               \
	DOT(Z16, Z18, Z19);             \
	VINSERTI64X4 $1, Y16, Z19, Z17; \
	VMOVDQU64    Z17, wideUIV_ku+448(DI)

#define POWERS8 \
	SPREAD(Z17, Z18);   \
	DOT(Z17, Z18, Z16); \
	VMOVDQU64    Z16, wideUIV_ku+384(DI)

#define POWERS16 \
	SPREAD(Z16, Z18);                     \
	DOT(Z16, Z18, Z14);                   \
	VMOVDQU64    Z14, wideUIV_ku+256(DI); \
	DOT(Z17, Z18, Z15);                   \
	VMOVDQU64    Z15, wideUIV_ku+320(DI)

#define POWERS32 \
	SPREAD(Z14, Z18);                     \
	DOT(Z14, Z18, Z10);                   \
	VMOVDQU64    Z10, wideUIV_ku+0(DI);   \
	DOT(Z15, Z18, Z11);                   \
	VMOVDQU64    Z11, wideUIV_ku+64(DI);  \
	DOT(Z16, Z18, Z12);                   \
	VMOVDQU64    Z12, wideUIV_ku+128(DI); \
	DOT(Z17, Z18, Z13);                   \
	VMOVDQU64    Z13, wideUIV_ku+192(DI)

#define KEYS \
	MOVQ            u+0(FP), DI;        \
	MOVQ            k+8(FP), SI;        \
	POLYNOMIAL;                         \
	VBROADCASTI32X4 rotated<>(SB), Y5;  \
	VMOVDQU         48(SI), X1;         \
	VMOVDQU         X1, wideUIV_b(DI);  \
	VMOVDQU64       16(SI), X17;        \
	VMOVDQU         (SI), X0;           \
	VINSERTI128     $1, 32(SI), Y0, Y0; \
	VEXTRACTI128    $1, Y0, wideUIV_k(DI)

// func wideKeysEncrypt(u *wideUIV, k *[uivKeyLen]byte)
TEXT ·wideKeysEncrypt(SB), NOSPLIT, $0-16
	KEYS
	VMOVDQU X0, wideUIV_kb(DI)
	POWERS2
	ENCKEY(1)
	ENCKEY(2)
	POWERS4
	ENCKEY(3)
	ENCKEY(4)
	POWERS8
	ENCKEY(5)
	ENCKEY(6)
	POWERS16
	ENCKEY(7)
	ENCKEY(8)
	POWERS32
	ENCKEY(9)
	ENCKEY(10)
	VZEROUPPER
	RET

// func wideKeysDecrypt(u *wideUIV, k *[uivKeyLen]byte)
TEXT ·wideKeysDecrypt(SB), NOSPLIT, $0-16
	KEYS
	VMOVDQU X0, wideUIV_kb+160(DI)
	POWERS2
	DECKEY(1)
	DECKEY(2)
	POWERS4
	DECKEY(3)
	DECKEY(4)
	POWERS8
	DECKEY(5)
	DECKEY(6)
	POWERS16
	DECKEY(7)
	DECKEY(8)
	POWERS32
	DECKEY(9)
	EXPAND(10)
	VMOVDQU X0, wideUIV_kb(DI)
	VZEROUPPER
	RET
