#include "go_asm.h"
#include "textflag.h"
#include "wide_amd64.h"

// UIV+ on 512-bit registers, four blocks in each. X_R, 493 bytes, is in Z0 to
// Z7, the rest of Z7 zero. Every function here runs the same instructions
// whatever the data.

// The hash covers chain | cmd | X_R, so X_R stands 17 bytes further on there:
// block group j is bytes 47 to 110 of the pair Z(j-1), Z(j).
DATA shift17<>+0(SB)/8, $0x363534333231302f
DATA shift17<>+8(SB)/8, $0x3e3d3c3b3a393837
DATA shift17<>+16(SB)/8, $0x464544434241403f
DATA shift17<>+24(SB)/8, $0x4e4d4c4b4a494847
DATA shift17<>+32(SB)/8, $0x565554535251504f
DATA shift17<>+40(SB)/8, $0x5e5d5c5b5a595857
DATA shift17<>+48(SB)/8, $0x666564636261605f
DATA shift17<>+56(SB)/8, $0x6e6d6c6b6a696867
GLOBL shift17<>(SB), RODATA|NOPTR, $64

// The counter is the last byte of a block.
DATA counters<>+8(SB)/8, $0x0000000000000000
DATA counters<>+24(SB)/8, $0x0100000000000000
DATA counters<>+40(SB)/8, $0x0200000000000000
DATA counters<>+56(SB)/8, $0x0300000000000000
GLOBL counters<>(SB), RODATA|NOPTR, $64

DATA four<>+8(SB)/8, $0x0400000000000000
GLOBL four<>(SB), RODATA|NOPTR, $16

// The counter's last six bits are cleared: 64 blocks without a carry.
DATA aligned<>+0(SB)/8, $0xffffffffffffffff
DATA aligned<>+8(SB)/8, $0xc0ffffffffffffff
GLOBL aligned<>(SB), RODATA|NOPTR, $16

// MULADD adds the product of a and b to hi, mid, lo. It clobbers t and s.
#define MULADD(a, b, hi, mid, lo, t, s) \
	VPCLMULQDQ $0x00, b, a, t; \
	VPXORQ     t, lo, lo;      \
	VPCLMULQDQ $0x11, b, a, s; \
	VPXORQ     s, hi, hi;      \
	VPCLMULQDQ $0x01, b, a, t; \
	VPCLMULQDQ $0x10, b, a, s; \
	VPTERNLOGQ $0x96, t, s, mid

// BLOCKS makes block group j of what is hashed, from Z(j-1) and Z(j).
#define BLOCKS(before, at, out) \
	VMOVDQA64 Z8, out; \
	VPERMI2B  at, before, out

// HASH sets X9 to the hash of chain (R8) | cmd (R9) | Z0 to Z7. It clobbers Z10
// to Z15. The blocks with the chain, which may come late, are the last.
#define HASH \
	VMOVDQU64     shift17<>(SB), Z8;          \
	BLOCKS(Z6, Z7, Z12);                      \
	VMOVDQU64     wideUIV_ku+448(DI), Z13;    \
	MUL(Z12, Z13, Z10, Z11, Z9, Z14);         \
	BLOCKS(Z5, Z6, Z12);                      \
	VMOVDQU64     wideUIV_ku+384(DI), Z13;    \
	MULADD(Z12, Z13, Z10, Z11, Z9, Z14, Z15); \
	BLOCKS(Z4, Z5, Z12);                      \
	VMOVDQU64     wideUIV_ku+320(DI), Z13;    \
	MULADD(Z12, Z13, Z10, Z11, Z9, Z14, Z15); \
	BLOCKS(Z3, Z4, Z12);                      \
	VMOVDQU64     wideUIV_ku+256(DI), Z13;    \
	MULADD(Z12, Z13, Z10, Z11, Z9, Z14, Z15); \
	BLOCKS(Z2, Z3, Z12);                      \
	VMOVDQU64     wideUIV_ku+192(DI), Z13;    \
	MULADD(Z12, Z13, Z10, Z11, Z9, Z14, Z15); \
	BLOCKS(Z1, Z2, Z12);                      \
	VMOVDQU64     wideUIV_ku+128(DI), Z13;    \
	MULADD(Z12, Z13, Z10, Z11, Z9, Z14, Z15); \
	BLOCKS(Z0, Z1, Z12);                      \
	VMOVDQU64     wideUIV_ku+64(DI), Z13;     \
	MULADD(Z12, Z13, Z10, Z11, Z9, Z14, Z15); \
	VPERMB.Z      Z0, Z8, K2, Z12;            \
	VMOVDQU       (R8), X13;                  \
	VMOVD         R9, X14;                    \
	VINSERTI128   $1, X14, Y13, Y13;          \
	VPORQ         Z13, Z12, Z12;              \
	VMOVDQU64     wideUIV_ku+0(DI), Z13;      \
	MULADD(Z12, Z13, Z10, Z11, Z9, Z14, Z15); \
	REDUCE(Z10, Z11, Z9, Z31, Z14, Z15);      \
	VEXTRACTI64X4 $1, Z9, Y14;                \
	VPXOR         Y14, Y9, Y9;                \
	VEXTRACTI128  $1, Y9, X14;                \
	VPXOR         X14, X9, X9

#define COUNT(x) \
	VPXORQ Z13, Z14, x; \
	VPADDB Z12, Z14, Z14

// STREAM sets Z16 to Z24 to the stream that X10 selects, 36 blocks. It clobbers
// X10 to X15.
#define STREAM \
	VMOVDQU64       counters<>(SB), Z14;     \
	VBROADCASTI32X4 four<>(SB), Z12;         \
	VMOVDQU         wideUIV_b(DI), X11;      \
	VPCLMULQDQ      $0x00, X11, X10, X13;    \
	VPCLMULQDQ      $0x01, X11, X10, X15;    \
	VPCLMULQDQ      $0x10, X11, X10, X16;    \
	VPCLMULQDQ      $0x11, X11, X10, X11;    \
	VPXORQ          X16, X15, X15;           \
	REDUCE(X11, X15, X13, X31, X16, X17);    \
	VPAND           aligned<>(SB), X13, X13; \
	VPXOR           wideUIV_k(DI), X13, X13; \
	VSHUFI64X2      $0, Z13, Z13, Z13;       \
	COUNT(Z16);                              \
	COUNT(Z17);                              \
	COUNT(Z18);                              \
	COUNT(Z19);                              \
	COUNT(Z20);                              \
	COUNT(Z21);                              \
	COUNT(Z22);                              \
	COUNT(Z23);                              \
	COUNT(Z24);                              \
	ROUND9(wideUIV_k+16(DI));                \
	ROUND9(wideUIV_k+32(DI));                \
	ROUND9(wideUIV_k+48(DI));                \
	ROUND9(wideUIV_k+64(DI));                \
	ROUND9(wideUIV_k+80(DI));                \
	ROUND9(wideUIV_k+96(DI));                \
	ROUND9(wideUIV_k+112(DI));               \
	ROUND9(wideUIV_k+128(DI));               \
	ROUND9(wideUIV_k+144(DI));               \
	LAST9(wideUIV_k+160(DI))

// MASK xors Z0 to Z7 with the stream, stores X_R, and stores what follows.
#define MASK \
	VPXORQ         Z16, Z0, Z0;                \
	VPXORQ         Z17, Z1, Z1;                \
	VPXORQ         Z18, Z2, Z2;                \
	VPXORQ         Z19, Z3, Z3;                \
	VPXORQ         Z20, Z4, Z4;                \
	VPXORQ         Z21, Z5, Z5;                \
	VPXORQ         Z22, Z6, Z6;                \
	VPXORQ         Z23, Z7, Z7;                \
	VMOVDQU8.Z     Z7, K1, Z7;                 \
	VMOVDQU64      Z0, 16(SI);                 \
	VMOVDQU64      Z1, 80(SI);                 \
	VMOVDQU64      Z2, 144(SI);                \
	VMOVDQU64      Z3, 208(SI);                \
	VMOVDQU64      Z4, 272(SI);                \
	VMOVDQU64      Z5, 336(SI);                \
	VMOVDQU64      Z6, 400(SI);                \
	VMOVDQU8       Z7, K1, 464(SI);            \
	VEXTRACTI64X2  $3, Z23, wideUIV_fresh(DI); \
	VMOVDQU64      Z24, wideUIV_fresh+16(DI)

// BLOCKCIPHER takes X10 through the block cipher, tweaked with X9.
#define BLOCKCIPHER(ROUND, LAST) \
	VPXOR wideUIV_kb(DI), X10, X10;     \
	VPXOR wideUIV_kb+160(DI), X9, X11;  \
	VPXOR X9, X10, X10;                 \
	ROUND wideUIV_kb+16(DI), X10, X10;  \
	ROUND wideUIV_kb+32(DI), X10, X10;  \
	ROUND wideUIV_kb+48(DI), X10, X10;  \
	ROUND wideUIV_kb+64(DI), X10, X10;  \
	ROUND wideUIV_kb+80(DI), X10, X10;  \
	ROUND wideUIV_kb+96(DI), X10, X10;  \
	ROUND wideUIV_kb+112(DI), X10, X10; \
	ROUND wideUIV_kb+128(DI), X10, X10; \
	ROUND wideUIV_kb+144(DI), X10, X10; \
	LAST  X11, X10, X10

#define LOAD \
	MOVQ        u+0(FP), DI;         \
	MOVQ        chain+8(FP), R8;     \
	MOVL        cmd+16(FP), R9;      \
	MOVQ        p+24(FP), SI;        \
	MOVQ        $0x1fffffffffff, AX; \
	KMOVQ       AX, K1;              \
	MOVQ        $-0x20000, AX;       \
	KMOVQ       AX, K2;              \
	POLYNOMIAL;                      \
	VMOVDQU     (SI), X10;           \
	VMOVDQU64   16(SI), Z0;          \
	VMOVDQU64   80(SI), Z1;          \
	VMOVDQU64   144(SI), Z2;         \
	VMOVDQU64   208(SI), Z3;         \
	VMOVDQU64   272(SI), Z4;         \
	VMOVDQU64   336(SI), Z5;         \
	VMOVDQU64   400(SI), Z6;         \
	VMOVDQU8.Z  464(SI), K1, Z7

// func wideEncrypt(u *wideUIV, chain *[16]byte, cmd uint32, p *[cell.PayloadLen]byte)
TEXT ·wideEncrypt(SB), NOSPLIT, $0-32
	LOAD
	VMOVDQA64 X10, X30
	HASH
	VMOVDQA64 X30, X10
	BLOCKCIPHER(VAESENC, VAESENCLAST)
	VMOVDQU X10, (R8)
	VMOVDQU X10, (SI)
	STREAM
	MASK
	VZEROUPPER
	RET

// func wideDecrypt(u *wideUIV, chain *[16]byte, cmd uint32, p *[cell.PayloadLen]byte)
TEXT ·wideDecrypt(SB), NOSPLIT, $0-32
	LOAD
	VMOVDQA64 X10, X30
	STREAM
	MASK
	HASH
	VMOVDQA64 X30, X10
	VMOVDQU X10, (R8)
	BLOCKCIPHER(VAESDEC, VAESDECLAST)
	VMOVDQU X10, (SI)
	VZEROUPPER
	RET
