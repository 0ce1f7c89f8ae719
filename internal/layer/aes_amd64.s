#include "textflag.h"

// AES-128 with AES-NI; see uiv_kernel.go for why. Every function here runs the
// same instructions whatever the data.

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

// EIGHT leaves the next eight blocks of key stream in X0 to X7 but for the last
// round, whose key is in X13.
#define EIGHT \
	MOVOU (SI), X13; \
	COUNTER(X0);     \
	COUNTER(X1);     \
	COUNTER(X2);     \
	COUNTER(X3);     \
	COUNTER(X4);     \
	COUNTER(X5);     \
	COUNTER(X6);     \
	COUNTER(X7);     \
	ROUND8(16);      \
	ROUND8(32);      \
	ROUND8(48);      \
	ROUND8(64);      \
	ROUND8(80);      \
	ROUND8(96);      \
	ROUND8(112);     \
	ROUND8(128);     \
	ROUND8(144);     \
	MOVOU 160(SI), X13

#define LAST(x, off) \
	AESENCLAST X13, x;       \
	MOVOU      off(DI), X12; \
	PXOR       X12, x;       \
	MOVOU      x, off(DI)

#define WHOLE(off) \
	EIGHT;            \
	LAST(X0, off);    \
	LAST(X1, off+16); \
	LAST(X2, off+32); \
	LAST(X3, off+48); \
	LAST(X4, off+64); \
	LAST(X5, off+80); \
	LAST(X6, off+96); \
	LAST(X7, off+112)

// Only the counter's last byte moves: CGO clears its low six bits and never
// takes more than 64 blocks.
#define FIRST \
	MOVOU  (DX), X15; \
	MOVQ   $1, AX;    \
	MOVQ   AX, X14;   \
	PSLLDQ $15, X14

// func aesPayload(enc *roundKeys, iv *[16]byte, p *[cell.PayloadLen]byte)
//
// The last block is 13 bytes, and three before it go through the same register
// unchanged; the block that they belong to is stored after it.
TEXT ·aesPayload(SB), NOSPLIT, $0-24
	MOVQ       enc+0(FP), SI
	MOVQ       iv+8(FP), DX
	MOVQ       p+16(FP), DI
	FIRST
	WHOLE(16)
	WHOLE(144)
	WHOLE(272)
	EIGHT
	LAST(X0, 400)
	LAST(X1, 416)
	LAST(X2, 432)
	LAST(X3, 448)
	LAST(X4, 464)
	AESENCLAST X13, X5
	MOVOU      480(DI), X12
	PXOR       X12, X5
	AESENCLAST X13, X6
	PSLLDQ     $3, X6
	MOVOU      493(DI), X12
	PXOR       X12, X6
	MOVOU      X6, 493(DI)
	MOVOU      X5, 480(DI)
	RET

// func aesEight(enc *roundKeys, iv *[16]byte, p *[128]byte)
TEXT ·aesEight(SB), NOSPLIT, $0-24
	MOVQ enc+0(FP), SI
	MOVQ iv+8(FP), DX
	MOVQ p+16(FP), DI
	FIRST
	WHOLE(0)
	RET
