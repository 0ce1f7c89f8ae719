#include "textflag.h"

// POLYVAL with PCLMULQDQ; see uiv_kernel.go for why.
// Every function here runs the same instructions whatever the data.

// MULADD adds a*b, 256 bits without reduction, to hi X3, mid X4, lo X2;
// clobbers X5.
#define MULADD(a, b) \
	MOVOU     a, X5;        \
	PCLMULQDQ $0x00, b, X5; \
	PXOR      X5, X2;       \
	MOVOU     a, X5;        \
	PCLMULQDQ $0x11, b, X5; \
	PXOR      X5, X3;       \
	MOVOU     a, X5;        \
	PCLMULQDQ $0x10, b, X5; \
	PXOR      X5, X4;       \
	MOVOU     a, X5;        \
	PCLMULQDQ $0x01, b, X5; \
	PXOR      X5, X4

// REDUCE leaves in X0 the sum in X3, X4, X2 times x^-128: cancel the lowest 64
// bits with a multiple of the polynomial, drop them, twice. X11 holds the
// polynomial's upper half, x^127 + x^126 + x^121, in its low 64 bits.
#define REDUCE \
	MOVOU     X4, X5;         \
	PSLLDQ    $8, X5;         \
	PXOR      X5, X2;         \
	PSRLDQ    $8, X4;         \
	PXOR      X4, X3;         \
	MOVOU     X2, X5;         \
	PCLMULQDQ $0x00, X11, X5; \
	PSHUFD    $0x4e, X2, X2;  \
	PXOR      X5, X2;         \
	MOVOU     X2, X5;         \
	PCLMULQDQ $0x00, X11, X5; \
	PSHUFD    $0x4e, X2, X2;  \
	PXOR      X5, X2;         \
	PXOR      X3, X2;         \
	MOVOU     X2, X0

#define CLEARSUM \
	PXOR X2, X2; \
	PXOR X3, X3; \
	PXOR X4, X4

#define POLYNOMIAL \
	MOVQ $0xc200000000000000, AX; \
	MOVQ AX, X11

// func polyDot(out, a, b *gf128)
TEXT ·polyDot(SB), NOSPLIT, $0-24
	MOVQ  out+0(FP), DI
	MOVQ  a+8(FP), SI
	MOVQ  b+16(FP), DX
	POLYNOMIAL
	MOVOU (SI), X1
	MOVOU (DX), X12
	CLEARSUM
	MULADD(X1, X12)
	REDUCE
	MOVOU X0, (DI)
	RET

// POWER sets power n of the key to the product of two in registers.
#define POWER(a, b, n) \
	CLEARSUM;                \
	MULADD(a, b);            \
	REDUCE;                  \
	MOVOU  X0, 128-16*n(DI); \
	PSHUFD $0x4e, X0, X1;    \
	PXOR   X0, X1;           \
	MOVOU  X1, 256-16*n(DI)

// func polyPowers(k *hashKey)
TEXT ·polyPowers(SB), NOSPLIT, $0-8
	MOVQ   k+0(FP), DI
	POLYNOMIAL
	MOVOU  112(DI), X12
	PSHUFD $0x4e, X12, X1
	PXOR   X12, X1
	MOVOU  X1, 240(DI)
	POWER(X12, X12, 2)
	MOVOU  X0, X13
	POWER(X13, X12, 3)
	MOVOU  X0, X14
	POWER(X13, X13, 4)
	MOVOU  X0, X15
	POWER(X15, X12, 5)
	POWER(X15, X13, 6)
	POWER(X15, X14, 7)
	POWER(X15, X15, 8)
	RET

// TERM adds block X1 times power 8-n to the sum, by Karatsuba's method: older
// CPUs take long for a product. It clobbers X5 to X9.
#define TERM(n) \
	MOVOU     16*n(DX), X9;     \
	MOVOU     X1, X5;           \
	PCLMULQDQ $0x00, X9, X5;    \
	PXOR      X5, X2;           \
	MOVOU     X1, X6;           \
	PCLMULQDQ $0x11, X9, X6;    \
	PXOR      X6, X3;           \
	MOVOU     128+16*n(DX), X8; \
	PSHUFD    $0x4e, X1, X7;    \
	PXOR      X1, X7;           \
	PCLMULQDQ $0x00, X8, X7;    \
	PXOR      X7, X4

// FOLD leaves the sum in X0.
#define FOLD \
	PXOR X2, X4; \
	PXOR X3, X4; \
	REDUCE

// BLOCK is TERM for block b of what is hashed, which begins 17 bytes before
// X_R's block b, and so one byte before the payload's.
#define BLOCK(b, n) \
	MOVOU 16*b-1(SI), X1; \
	TERM(n)

// GROUP hashes eight blocks, from b on; the one that waits for X0 comes last.
#define GROUP(b) \
	CLEARSUM;             \
	BLOCK((b+1), 1);      \
	BLOCK((b+2), 2);      \
	BLOCK((b+3), 3);      \
	BLOCK((b+4), 4);      \
	BLOCK((b+5), 5);      \
	BLOCK((b+6), 6);      \
	BLOCK((b+7), 7);      \
	MOVOU 16*b-1(SI), X1; \
	PXOR  X0, X1;         \
	TERM(0);              \
	FOLD

// func polyPayload(out *[16]byte, k *hashKey, chain *[16]byte, cmd uint32, p *[cell.PayloadLen]byte)
TEXT ·polyPayload(SB), NOSPLIT, $0-40
	MOVQ   out+0(FP), DI
	MOVQ   k+8(FP), DX
	MOVQ   chain+16(FP), R8
	MOVL   cmd+24(FP), R9
	MOVQ   p+32(FP), SI
	POLYNOMIAL

	// The command and 15 bytes of X_R are the second block.
	CLEARSUM
	MOVOU  16(SI), X1
	PSLLDQ $1, X1
	MOVQ   R9, X5
	PXOR   X5, X1
	TERM(1)
	BLOCK(2, 2)
	BLOCK(3, 3)
	BLOCK(4, 4)
	BLOCK(5, 5)
	BLOCK(6, 6)
	BLOCK(7, 7)
	MOVOU  (R8), X1
	TERM(0)
	FOLD
	GROUP(8)
	GROUP(16)

	// Two zero bytes end the last block.
	CLEARSUM
	BLOCK(25, 1)
	BLOCK(26, 2)
	BLOCK(27, 3)
	BLOCK(28, 4)
	BLOCK(29, 5)
	BLOCK(30, 6)
	MOVOU  493(SI), X1
	PSRLDQ $2, X1
	TERM(7)
	MOVOU  383(SI), X1
	PXOR   X0, X1
	TERM(0)
	FOLD
	MOVOU  X0, (DI)
	RET
