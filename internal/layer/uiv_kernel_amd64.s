#include "textflag.h"

// POLYVAL and AES-128 with the CPU's own instructions; see kernel.go for why.
// Every function here runs the same instructions whatever the data.

// MULADD adds a*b, 256 bits without reduction, to hi X3, mid X4, lo X2;
// clobbers X5.
#define MULADD(a, b) \
	MOVOU     a, X5;          \
	PCLMULQDQ $0x00, b, X5;   \
	PXOR      X5, X2;         \
	MOVOU     a, X5;          \
	PCLMULQDQ $0x11, b, X5;   \
	PXOR      X5, X3;         \
	MOVOU     a, X5;          \
	PCLMULQDQ $0x10, b, X5;   \
	PXOR      X5, X4;         \
	MOVOU     a, X5;          \
	PCLMULQDQ $0x01, b, X5;   \
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

// func polyPowers(pow *[4]gf128)
//
// pow[3] is the key; pow[2], pow[1], pow[0] become its powers 2, 3 and 4.
TEXT ·polyPowers(SB), NOSPLIT, $0-8
	MOVQ  pow+0(FP), DI
	POLYNOMIAL
	MOVOU 48(DI), X12
	CLEARSUM
	MULADD(X12, X12)
	REDUCE
	MOVOU X0, 32(DI)
	MOVOU X0, X13
	CLEARSUM
	MULADD(X13, X12)
	REDUCE
	MOVOU X0, 16(DI)
	CLEARSUM
	MULADD(X13, X13)
	REDUCE
	MOVOU X0, (DI)
	RET

// func polyGroups(acc *gf128, pow *[4]gf128, p *byte, groups int)
//
// Four blocks share one reduction: acc = (acc+p0)*h^4 + p1*h^3 + p2*h^2 + p3*h.
// The block that waits for acc comes last.
TEXT ·polyGroups(SB), NOSPLIT, $0-32
	MOVQ  acc+0(FP), DI
	MOVQ  pow+8(FP), DX
	MOVQ  p+16(FP), SI
	MOVQ  groups+24(FP), CX
	POLYNOMIAL
	MOVOU (DI), X0
	MOVOU (DX), X12
	MOVOU 16(DX), X13
	MOVOU 32(DX), X14
	MOVOU 48(DX), X15

group:
	CLEARSUM
	MOVOU 16(SI), X1
	MULADD(X1, X13)
	MOVOU 32(SI), X6
	MULADD(X6, X14)
	MOVOU 48(SI), X7
	MULADD(X7, X15)
	MOVOU (SI), X8
	PXOR  X0, X8
	MULADD(X8, X12)
	REDUCE
	ADDQ  $64, SI
	DECQ  CX
	JNZ   group
	MOVOU X0, (DI)
	RET

#define EXPAND(rcon, off) \
	AESKEYGENASSIST $rcon, X0, X1; \
	PSHUFD          $0xff, X1, X1; \
	MOVOU           X0, X2;        \
	PSLLDQ          $4, X2;        \
	PXOR            X2, X0;        \
	PSLLDQ          $4, X2;        \
	PXOR            X2, X0;        \
	PSLLDQ          $4, X2;        \
	PXOR            X2, X0;        \
	PXOR            X1, X0;        \
	MOVOU           X0, off(DI)

// func aesExpand(enc *roundKeys, key *[16]byte)
TEXT ·aesExpand(SB), NOSPLIT, $0-16
	MOVQ  enc+0(FP), DI
	MOVQ  key+8(FP), SI
	MOVOU (SI), X0
	MOVOU X0, (DI)
	EXPAND(0x01, 16)
	EXPAND(0x02, 32)
	EXPAND(0x04, 48)
	EXPAND(0x08, 64)
	EXPAND(0x10, 80)
	EXPAND(0x20, 96)
	EXPAND(0x40, 112)
	EXPAND(0x80, 128)
	EXPAND(0x1b, 144)
	EXPAND(0x36, 160)
	RET

#define INVERT(from, to) \
	MOVOU  from(SI), X0; \
	AESIMC X0, X0;       \
	MOVOU  X0, to(DI)

// func aesInvert(dec, enc *roundKeys)
TEXT ·aesInvert(SB), NOSPLIT, $0-16
	MOVQ  dec+0(FP), DI
	MOVQ  enc+8(FP), SI
	MOVOU 160(SI), X0
	MOVOU X0, (DI)
	INVERT(144, 16)
	INVERT(128, 32)
	INVERT(112, 48)
	INVERT(96, 64)
	INVERT(80, 80)
	INVERT(64, 96)
	INVERT(48, 112)
	INVERT(32, 128)
	INVERT(16, 144)
	MOVOU (SI), X0
	MOVOU X0, 160(DI)
	RET

#define ENC1(off) \
	MOVOU  off(SI), X1; \
	AESENC X1, X0

#define DEC1(off) \
	MOVOU  off(SI), X1; \
	AESDEC X1, X0

// func aesEncrypt(enc *roundKeys, b *[16]byte)
TEXT ·aesEncrypt(SB), NOSPLIT, $0-16
	MOVQ       enc+0(FP), SI
	MOVQ       b+8(FP), DI
	MOVOU      (DI), X0
	MOVOU      (SI), X1
	PXOR       X1, X0
	ENC1(16)
	ENC1(32)
	ENC1(48)
	ENC1(64)
	ENC1(80)
	ENC1(96)
	ENC1(112)
	ENC1(128)
	ENC1(144)
	MOVOU      160(SI), X1
	AESENCLAST X1, X0
	MOVOU      X0, (DI)
	RET

// func aesDecrypt(dec *roundKeys, b *[16]byte)
TEXT ·aesDecrypt(SB), NOSPLIT, $0-16
	MOVQ       dec+0(FP), SI
	MOVQ       b+8(FP), DI
	MOVOU      (DI), X0
	MOVOU      (SI), X1
	PXOR       X1, X0
	DEC1(16)
	DEC1(32)
	DEC1(48)
	DEC1(64)
	DEC1(80)
	DEC1(96)
	DEC1(112)
	DEC1(128)
	DEC1(144)
	MOVOU      160(SI), X1
	AESDECLAST X1, X0
	MOVOU      X0, (DI)
	RET

#define COUNTER(x) \
	MOVOU X15, x;   \
	PADDB X14, X15; \
	PXOR  X13, x

#define ROUND8(off) \
	MOVOU  off(SI), X13; \
	AESENC X13, X0;      \
	AESENC X13, X1;      \
	AESENC X13, X2;      \
	AESENC X13, X3;      \
	AESENC X13, X4;      \
	AESENC X13, X5;      \
	AESENC X13, X6;      \
	AESENC X13, X7

#define LAST(x, off) \
	AESENCLAST X13, x;      \
	MOVOU      off(DI), X12; \
	PXOR       X12, x;      \
	MOVOU      x, off(DI)

// func aesCounter8(enc *roundKeys, iv *[16]byte, p *byte, groups int)
//
// Xors groups of eight blocks at p with the key stream. Only the counter's last
// byte moves: CGO clears its low six bits and never takes more than 64 blocks.
TEXT ·aesCounter8(SB), NOSPLIT, $0-32
	MOVQ   enc+0(FP), SI
	MOVQ   iv+8(FP), DX
	MOVQ   p+16(FP), DI
	MOVQ   groups+24(FP), CX
	MOVOU  (DX), X15
	MOVQ   $1, AX
	MOVQ   AX, X14
	PSLLDQ $15, X14

eight:
	MOVOU (SI), X13
	COUNTER(X0)
	COUNTER(X1)
	COUNTER(X2)
	COUNTER(X3)
	COUNTER(X4)
	COUNTER(X5)
	COUNTER(X6)
	COUNTER(X7)
	ROUND8(16)
	ROUND8(32)
	ROUND8(48)
	ROUND8(64)
	ROUND8(80)
	ROUND8(96)
	ROUND8(112)
	ROUND8(128)
	ROUND8(144)
	MOVOU 160(SI), X13
	LAST(X0, 0)
	LAST(X1, 16)
	LAST(X2, 32)
	LAST(X3, 48)
	LAST(X4, 64)
	LAST(X5, 80)
	LAST(X6, 96)
	LAST(X7, 112)
	ADDQ  $128, DI
	DECQ  CX
	JNZ   eight
	RET
