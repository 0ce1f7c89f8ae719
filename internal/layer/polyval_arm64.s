#include "textflag.h"

// POLYVAL with PMULL; see uiv_kernel.go for why. Every function here runs the
// same instructions whatever the data. V30 is zero, and V31 holds the
// polynomial's upper half, x^127 + x^126 + x^121, in its low 64 bits.

#define CONSTANTS \
	VEOR V30.B16, V30.B16, V30.B16; \
	MOVD $0xc200000000000000, R9;   \
	VMOV R9, V31.D2

#define CLEARSUM \
	VEOR V2.B16, V2.B16, V2.B16; \
	VEOR V3.B16, V3.B16, V3.B16; \
	VEOR V4.B16, V4.B16, V4.B16

// MULADD adds a*b, 256 bits without reduction, to hi V3, mid V4, lo V2;
// clobbers V5 to V7.
#define MULADD(a, b) \
	VPMULL  a.D1, b.D1, V5.Q1;        \
	VPMULL2 a.D2, b.D2, V6.Q1;        \
	VEOR    V5.B16, V2.B16, V2.B16;   \
	VEOR    V6.B16, V3.B16, V3.B16;   \
	VEXT    $8, b.B16, b.B16, V7.B16; \
	VPMULL  a.D1, V7.D1, V5.Q1;       \
	VPMULL2 a.D2, V7.D2, V6.Q1;       \
	VEOR    V5.B16, V4.B16, V4.B16;   \
	VEOR    V6.B16, V4.B16, V4.B16

// REDUCE leaves in V0 the sum in V3, V4, V2 times x^-128: cancel the lowest 64
// bits with a multiple of the polynomial, drop them, twice.
#define REDUCE \
	VEXT   $8, V4.B16, V30.B16, V5.B16; \
	VEXT   $8, V30.B16, V4.B16, V6.B16; \
	VEOR   V5.B16, V2.B16, V2.B16;      \
	VEOR   V6.B16, V3.B16, V3.B16;      \
	VPMULL V31.D1, V2.D1, V5.Q1;        \
	VEXT   $8, V2.B16, V2.B16, V2.B16;  \
	VEOR   V5.B16, V2.B16, V2.B16;      \
	VPMULL V31.D1, V2.D1, V5.Q1;        \
	VEXT   $8, V2.B16, V2.B16, V2.B16;  \
	VEOR   V5.B16, V2.B16, V2.B16;      \
	VEOR   V3.B16, V2.B16, V0.B16

// func polyDot(out, a, b *gf128)
TEXT ·polyDot(SB), NOSPLIT, $0-24
	MOVD out+0(FP), R0
	MOVD a+8(FP), R1
	MOVD b+16(FP), R2
	CONSTANTS
	VLD1 (R1), [V8.B16]
	VLD1 (R2), [V9.B16]
	CLEARSUM
	MULADD(V8, V9)
	REDUCE
	VST1 [V0.B16], (R0)
	RET

// POWER sets to to the product of two powers of the key.
#define POWER(a, b, to) \
	CLEARSUM;     \
	MULADD(a, b); \
	REDUCE;       \
	VMOV V0.B16, to.B16

// func polyPowers(k *hashKey)
TEXT ·polyPowers(SB), NOSPLIT, $0-8
	MOVD k+0(FP), R0
	CONSTANTS
	ADD  $112, R0, R1
	VLD1 (R1), [V23.B16]
	POWER(V23, V23, V22)
	POWER(V22, V23, V21)
	POWER(V22, V22, V20)
	POWER(V20, V23, V19)
	POWER(V20, V22, V18)
	POWER(V20, V21, V17)
	POWER(V20, V20, V16)
	VST1.P [V16.B16, V17.B16, V18.B16, V19.B16], 64(R0)
	VST1   [V20.B16, V21.B16, V22.B16, V23.B16], (R0)
	RET

// GROUP adds the products of V8 to V15 with powers 8 to 1 to V0's; the one that
// waits for V0 comes last.
#define GROUP \
	CLEARSUM;                      \
	MULADD(V9, V17);               \
	MULADD(V10, V18);              \
	MULADD(V11, V19);              \
	MULADD(V12, V20);              \
	MULADD(V13, V21);              \
	MULADD(V14, V22);              \
	MULADD(V15, V23);              \
	VEOR   V0.B16, V8.B16, V8.B16; \
	MULADD(V8, V16);               \
	REDUCE

// func polyPayload(out *[16]byte, k *hashKey, chain *[16]byte, cmd uint32, p *[cell.PayloadLen]byte)
//
// X_R stands 17 bytes further on in what is hashed, so that blocks there begin
// one byte before the payload's. The command and 15 bytes of X_R are the second
// block, and two zero bytes end the last one.
TEXT ·polyPayload(SB), NOSPLIT, $0-40
	MOVD   out+0(FP), R0
	MOVD   k+8(FP), R1
	MOVD   chain+16(FP), R3
	MOVWU  cmd+24(FP), R4
	MOVD   p+32(FP), R2
	CONSTANTS
	VEOR   V0.B16, V0.B16, V0.B16
	VLD1.P 64(R1), [V16.B16, V17.B16, V18.B16, V19.B16]
	VLD1   (R1), [V20.B16, V21.B16, V22.B16, V23.B16]

	VLD1   (R3), [V8.B16]
	ADD    $16, R2, R5
	VLD1   (R5), [V9.B16]
	VEXT   $15, V9.B16, V30.B16, V9.B16
	VMOV   R4, V9.B[0]
	ADD    $31, R2, R5
	VLD1.P 64(R5), [V10.B16, V11.B16, V12.B16, V13.B16]
	VLD1.P 32(R5), [V14.B16, V15.B16]
	GROUP
	VLD1.P 64(R5), [V8.B16, V9.B16, V10.B16, V11.B16]
	VLD1.P 64(R5), [V12.B16, V13.B16, V14.B16, V15.B16]
	GROUP
	VLD1.P 64(R5), [V8.B16, V9.B16, V10.B16, V11.B16]
	VLD1.P 64(R5), [V12.B16, V13.B16, V14.B16, V15.B16]
	GROUP
	VLD1.P 64(R5), [V8.B16, V9.B16, V10.B16, V11.B16]
	VLD1   (R5), [V12.B16, V13.B16, V14.B16]
	ADD    $493, R2, R5
	VLD1   (R5), [V15.B16]
	VEXT   $2, V30.B16, V15.B16, V15.B16
	GROUP
	VST1   [V0.B16], (R0)
	RET
