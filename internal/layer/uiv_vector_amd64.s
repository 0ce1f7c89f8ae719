#include "go_asm.h"
#include "textflag.h"

// UIV+ on 256-bit registers, two blocks in each; see uiv_vector_amd64.go for why.
// Every function here runs the same instructions whatever the data.

// func leaf7() uint32
TEXT ·leaf7(SB), NOSPLIT, $0-4
	MOVL $7, AX
	XORL CX, CX
	CPUID
	MOVL CX, ret+0(FP)
	RET

// Two counters, and how far they move. Only the last byte moves: the selector's
// low six bits are cleared, and nothing takes more than 64 blocks.
DATA counters<>+0(SB)/8, $0
DATA counters<>+8(SB)/8, $0
DATA counters<>+16(SB)/8, $0
DATA counters<>+24(SB)/8, $0x0100000000000000
GLOBL counters<>(SB), RODATA|NOPTR, $32

DATA two<>+0(SB)/8, $0
DATA two<>+8(SB)/8, $0x0200000000000000
DATA two<>+16(SB)/8, $0
DATA two<>+24(SB)/8, $0x0200000000000000
GLOBL two<>(SB), RODATA|NOPTR, $32

DATA aligned<>+0(SB)/8, $0xffffffffffffffff
DATA aligned<>+8(SB)/8, $0xc0ffffffffffffff
GLOBL aligned<>(SB), RODATA|NOPTR, $16

// REDUCE leaves in X0 the sum in X3, X4, X2 times x^-128, as polyval_amd64.s does.
#define REDUCE \
	VPSLLDQ    $8, X4, X5;         \
	VPXOR      X5, X2, X2;         \
	VPSRLDQ    $8, X4, X4;         \
	VPXOR      X4, X3, X3;         \
	VPCLMULQDQ $0x00, X11, X2, X5; \
	VPSHUFD    $0x4e, X2, X2;      \
	VPXOR      X5, X2, X2;         \
	VPCLMULQDQ $0x00, X11, X2, X5; \
	VPSHUFD    $0x4e, X2, X2;      \
	VPXOR      X5, X2, X2;         \
	VPXOR      X3, X2, X0

#define CLEARSUM \
	VPXOR Y2, Y2, Y2; \
	VPXOR Y3, Y3, Y3; \
	VPXOR Y4, Y4, Y4

// TERMS adds the two blocks in Y1 times the powers 8-n and 7-n to the sum. It
// clobbers Y5 to Y9.
#define TERMS(n) \
	VMOVDQU    kernelUIV_ku+16*n(DI), Y9;                \
	VPCLMULQDQ $0x00, Y9, Y1, Y5;                        \
	VPXOR      Y5, Y2, Y2;                               \
	VPCLMULQDQ $0x11, Y9, Y1, Y6;                        \
	VPXOR      Y6, Y3, Y3;                               \
	VPSHUFD    $0x4e, Y1, Y7;                            \
	VPXOR      Y1, Y7, Y7;                               \
	VPCLMULQDQ $0x00, kernelUIV_ku+128+16*n(DI), Y7, Y7; \
	VPXOR      Y7, Y4, Y4

// FOLD leaves the sum in X0, and zero in the upper half of Y0.
#define FOLD \
	VEXTRACTI128 $1, Y2, X5; \
	VPXOR        X5, X2, X2; \
	VEXTRACTI128 $1, Y3, X6; \
	VPXOR        X6, X3, X3; \
	VEXTRACTI128 $1, Y4, X7; \
	VPXOR        X7, X4, X4; \
	VPXOR        X2, X4, X4; \
	VPXOR        X3, X4, X4; \
	REDUCE

// BLOCKS is TERMS for blocks b and b+1 of what is hashed: see BLOCK in
// polyval_amd64.s.
#define BLOCKS(b, n) \
	VMOVDQU 16*b-1(SI), Y1; \
	TERMS(n)

// GROUP hashes eight blocks, from b on; the one that waits for X0 comes last.
#define GROUP(b) \
	CLEARSUM;               \
	BLOCKS((b+2), 2);       \
	BLOCKS((b+4), 4);       \
	BLOCKS((b+6), 6);       \
	VMOVDQU 16*b-1(SI), Y1; \
	VPXOR   Y0, Y1, Y1;     \
	TERMS(0);               \
	FOLD

// HASH leaves in X0 the hash of chain | cmd | X_R. The command and 15 bytes of X_R
// are the second block; two zero bytes end the last one.
#define HASH \
	CLEARSUM;                   \
	VMOVDQU     16(SI), X1;     \
	VPSLLDQ     $1, X1, X1;     \
	VMOVQ       R9, X5;         \
	VPXOR       X5, X1, X1;     \
	VMOVDQU     (R8), X5;       \
	VINSERTI128 $1, X1, Y5, Y1; \
	TERMS(0);                   \
	BLOCKS(2, 2);               \
	BLOCKS(4, 4);               \
	BLOCKS(6, 6);               \
	FOLD;                       \
	GROUP(8);                   \
	GROUP(16);                  \
	CLEARSUM;                   \
	BLOCKS(26, 2);              \
	BLOCKS(28, 4);              \
	VMOVDQU     493(SI), X1;    \
	VPSRLDQ     $2, X1, X1;     \
	VMOVDQU     479(SI), X5;    \
	VINSERTI128 $1, X1, Y5, Y1; \
	TERMS(6);                   \
	VMOVDQU     383(SI), Y1;    \
	VPXOR       Y0, Y1, Y1;     \
	TERMS(0);                   \
	FOLD

#define COUNTER(x) \
	VPXOR  Y13, Y15, x; \
	VPADDB Y14, Y15, Y15

#define ROUND8(off) \
	VBROADCASTI128 kernelUIV_k+off(DI), Y13; \
	VAESENC        Y13, Y0, Y0;              \
	VAESENC        Y13, Y1, Y1;              \
	VAESENC        Y13, Y2, Y2;              \
	VAESENC        Y13, Y3, Y3;              \
	VAESENC        Y13, Y4, Y4;              \
	VAESENC        Y13, Y5, Y5;              \
	VAESENC        Y13, Y6, Y6;              \
	VAESENC        Y13, Y7, Y7

// SIXTEEN leaves the next sixteen blocks of key stream in Y0 to Y7, without the
// last round, whose key is in Y13.
#define SIXTEEN \
	VBROADCASTI128 kernelUIV_k(DI), Y13; \
	COUNTER(Y0);                         \
	COUNTER(Y1);                         \
	COUNTER(Y2);                         \
	COUNTER(Y3);                         \
	COUNTER(Y4);                         \
	COUNTER(Y5);                         \
	COUNTER(Y6);                         \
	COUNTER(Y7);                         \
	ROUND8(16);                          \
	ROUND8(32);                          \
	ROUND8(48);                          \
	ROUND8(64);                          \
	ROUND8(80);                          \
	ROUND8(96);                          \
	ROUND8(112);                         \
	ROUND8(128);                         \
	ROUND8(144);                         \
	VBROADCASTI128 kernelUIV_k+160(DI), Y13

#define LAST(x, off) \
	VAESENCLAST Y13, x, x;     \
	VPXOR       off(SI), x, x; \
	VMOVDQU     x, off(SI)

// STREAM xors X_R with the stream that X10 selects, and keeps its first counter. The
// last block is 13 bytes, and three before it go through the same register
// unchanged; the blocks that they belong to are stored after it.
#define STREAM \
	VMOVDQU     kernelUIV_b(DI), X12;     \
	VPCLMULQDQ  $0x00, X12, X10, X2;      \
	VPCLMULQDQ  $0x11, X12, X10, X3;      \
	VPCLMULQDQ  $0x01, X12, X10, X4;      \
	VPCLMULQDQ  $0x10, X12, X10, X5;      \
	VPXOR       X5, X4, X4;               \
	REDUCE;                               \
	VPAND       aligned<>(SB), X0, X15;   \
	VMOVDQU     X15, kernelUIV_iv(DI);    \
	VINSERTI128 $1, X15, Y15, Y15;        \
	VPADDB      counters<>(SB), Y15, Y15; \
	VMOVDQU     two<>(SB), Y14;           \
	SIXTEEN;                              \
	LAST(Y0, 16);                         \
	LAST(Y1, 48);                         \
	LAST(Y2, 80);                         \
	LAST(Y3, 112);                        \
	LAST(Y4, 144);                        \
	LAST(Y5, 176);                        \
	LAST(Y6, 208);                        \
	LAST(Y7, 240);                        \
	SIXTEEN;                              \
	LAST(Y0, 272);                        \
	LAST(Y1, 304);                        \
	LAST(Y2, 336);                        \
	LAST(Y3, 368);                        \
	LAST(Y4, 400);                        \
	LAST(Y5, 432);                        \
	VAESENCLAST Y13, Y6, Y6;              \
	VPXOR       464(SI), Y6, Y6;          \
	VAESENCLAST X13, X7, X7;              \
	VPSLLDQ     $3, X7, X7;               \
	VPXOR       493(SI), X7, X7;          \
	VMOVDQU     X7, 493(SI);              \
	VMOVDQU     Y6, 464(SI)

// BLOCKCIPHER takes X10 through the block cipher, tweaked with X0, to X8.
#define BLOCKCIPHER(ROUND, LASTROUND) \
	VPXOR     kernelUIV_kb(DI), X10, X8;    \
	VPXOR     X0, X8, X8;                   \
	VPXOR     kernelUIV_kb+160(DI), X0, X9; \
	ROUND     kernelUIV_kb+16(DI), X8, X8;  \
	ROUND     kernelUIV_kb+32(DI), X8, X8;  \
	ROUND     kernelUIV_kb+48(DI), X8, X8;  \
	ROUND     kernelUIV_kb+64(DI), X8, X8;  \
	ROUND     kernelUIV_kb+80(DI), X8, X8;  \
	ROUND     kernelUIV_kb+96(DI), X8, X8;  \
	ROUND     kernelUIV_kb+112(DI), X8, X8; \
	ROUND     kernelUIV_kb+128(DI), X8, X8; \
	ROUND     kernelUIV_kb+144(DI), X8, X8; \
	LASTROUND X9, X8, X8

#define LOAD \
	MOVQ    u+0(FP), DI;             \
	MOVQ    chain+8(FP), R8;         \
	MOVL    cmd+16(FP), R9;          \
	MOVQ    p+24(FP), SI;            \
	MOVQ    $0xc200000000000000, AX; \
	VMOVQ   AX, X11;                 \
	VMOVDQU (SI), X10

// func vectorEncrypt(u *kernelUIV, chain *[16]byte, cmd uint32, p *[cell.PayloadLen]byte)
TEXT ·vectorEncrypt(SB), NOSPLIT, $0-32
	LOAD
	HASH
	BLOCKCIPHER(VAESENC, VAESENCLAST)
	VMOVDQU X8, X10
	VMOVDQU X8, (R8)
	VMOVDQU X8, (SI)
	STREAM
	VZEROUPPER
	RET

// func vectorDecrypt(u *kernelUIV, chain *[16]byte, cmd uint32, p *[cell.PayloadLen]byte)
TEXT ·vectorDecrypt(SB), NOSPLIT, $0-32
	LOAD
	STREAM
	HASH
	BLOCKCIPHER(VAESDEC, VAESDECLAST)
	VMOVDQU X10, (R8)
	VMOVDQU X8, (SI)
	VZEROUPPER
	RET
