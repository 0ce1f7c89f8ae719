#include "textflag.h"

// POLYVAL and AES-128 with the CPU's own instructions; see kernel.go for why.
// Every function here runs the same instructions whatever the data. V30 is
// zero, and V31 holds the polynomial's upper half, x^127 + x^126 + x^121, in
// its low 64 bits.

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
	VPMULL  a.D1, b.D1, V5.Q1;       \
	VPMULL2 a.D2, b.D2, V6.Q1;       \
	VEOR    V5.B16, V2.B16, V2.B16;  \
	VEOR    V6.B16, V3.B16, V3.B16;  \
	VEXT    $8, b.B16, b.B16, V7.B16; \
	VPMULL  a.D1, V7.D1, V5.Q1;      \
	VPMULL2 a.D2, V7.D2, V6.Q1;      \
	VEOR    V5.B16, V4.B16, V4.B16;  \
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

// func polyPowers(pow *[4]gf128)
//
// pow[3] is the key; pow[2], pow[1], pow[0] become its powers 2, 3 and 4.
TEXT ·polyPowers(SB), NOSPLIT, $0-8
	MOVD pow+0(FP), R0
	CONSTANTS
	ADD  $48, R0, R1
	VLD1 (R1), [V11.B16]
	CLEARSUM
	MULADD(V11, V11)
	REDUCE
	VMOV V0.B16, V10.B16
	CLEARSUM
	MULADD(V10, V11)
	REDUCE
	VMOV V0.B16, V9.B16
	CLEARSUM
	MULADD(V10, V10)
	REDUCE
	VMOV V0.B16, V8.B16
	VST1 [V8.B16, V9.B16, V10.B16, V11.B16], (R0)
	RET

// func polyGroups(acc *gf128, pow *[4]gf128, p *byte, groups int)
//
// Four blocks share one reduction: acc = (acc+p0)*h^4 + p1*h^3 + p2*h^2 + p3*h.
// The block that waits for acc comes last.
TEXT ·polyGroups(SB), NOSPLIT, $0-32
	MOVD acc+0(FP), R0
	MOVD pow+8(FP), R1
	MOVD p+16(FP), R2
	MOVD groups+24(FP), R3
	CONSTANTS
	VLD1 (R0), [V0.B16]
	VLD1 (R1), [V8.B16, V9.B16, V10.B16, V11.B16]

group:
	VLD1.P 64(R2), [V12.B16, V13.B16, V14.B16, V15.B16]
	CLEARSUM
	MULADD(V13, V9)
	MULADD(V14, V10)
	MULADD(V15, V11)
	VEOR   V0.B16, V12.B16, V12.B16
	MULADD(V12, V8)
	REDUCE
	SUB    $1, R3
	CBNZ   R3, group
	VST1   [V0.B16], (R0)
	RET

// EXPAND makes the next round key in R4 to R7. AESE with a zero key substitutes
// bytes and shifts rows; rows of four equal words do not notice the shift.
#define EXPAND(rcon) \
	VDUP  R7, V0.S4;         \
	AESE  V30.B16, V0.B16;   \
	VMOV  V0.S[0], R8;       \
	RORW  $8, R8, R8;        \
	EORW  $rcon, R8, R8;     \
	EORW  R8, R4, R4;        \
	EORW  R4, R5, R5;        \
	EORW  R5, R6, R6;        \
	EORW  R6, R7, R7;        \
	STPW  (R4, R5), (R0);    \
	STPW  (R6, R7), 8(R0);   \
	ADD   $16, R0, R0

// func aesExpand(enc *roundKeys, key *[16]byte)
TEXT ·aesExpand(SB), NOSPLIT, $0-16
	MOVD enc+0(FP), R0
	MOVD key+8(FP), R1
	VEOR V30.B16, V30.B16, V30.B16
	LDPW (R1), (R4, R5)
	LDPW 8(R1), (R6, R7)
	STPW (R4, R5), (R0)
	STPW (R6, R7), 8(R0)
	ADD  $16, R0, R0
	EXPAND(0x01)
	EXPAND(0x02)
	EXPAND(0x04)
	EXPAND(0x08)
	EXPAND(0x10)
	EXPAND(0x20)
	EXPAND(0x40)
	EXPAND(0x80)
	EXPAND(0x1b)
	EXPAND(0x36)
	RET

// LOADKEYS puts the eleven round keys at R0 into V16 to V26.
#define LOADKEYS \
	VLD1.P 64(R0), [V16.B16, V17.B16, V18.B16, V19.B16]; \
	VLD1.P 64(R0), [V20.B16, V21.B16, V22.B16, V23.B16]; \
	VLD1   (R0), [V24.B16, V25.B16, V26.B16]

#define INVERT(k) \
	AESIMC k.B16, k.B16

// func aesInvert(dec, enc *roundKeys)
TEXT ·aesInvert(SB), NOSPLIT, $0-16
	MOVD dec+0(FP), R1
	MOVD enc+8(FP), R0
	LOADKEYS
	INVERT(V17)
	INVERT(V18)
	INVERT(V19)
	INVERT(V20)
	INVERT(V21)
	INVERT(V22)
	INVERT(V23)
	INVERT(V24)
	INVERT(V25)
	VST1.P [V26.B16], 16(R1)
	VST1.P [V25.B16], 16(R1)
	VST1.P [V24.B16], 16(R1)
	VST1.P [V23.B16], 16(R1)
	VST1.P [V22.B16], 16(R1)
	VST1.P [V21.B16], 16(R1)
	VST1.P [V20.B16], 16(R1)
	VST1.P [V19.B16], 16(R1)
	VST1.P [V18.B16], 16(R1)
	VST1.P [V17.B16], 16(R1)
	VST1   [V16.B16], (R1)
	RET

#define ENC1(k, b) \
	AESE  k.B16, b.B16; \
	AESMC b.B16, b.B16

#define DEC1(k) \
	AESD   k.B16, V0.B16; \
	AESIMC V0.B16, V0.B16

// func aesEncrypt(enc *roundKeys, b *[16]byte)
TEXT ·aesEncrypt(SB), NOSPLIT, $0-16
	MOVD enc+0(FP), R0
	MOVD b+8(FP), R1
	LOADKEYS
	VLD1 (R1), [V0.B16]
	ENC1(V16, V0)
	ENC1(V17, V0)
	ENC1(V18, V0)
	ENC1(V19, V0)
	ENC1(V20, V0)
	ENC1(V21, V0)
	ENC1(V22, V0)
	ENC1(V23, V0)
	ENC1(V24, V0)
	AESE V25.B16, V0.B16
	VEOR V26.B16, V0.B16, V0.B16
	VST1 [V0.B16], (R1)
	RET

// func aesDecrypt(dec *roundKeys, b *[16]byte)
TEXT ·aesDecrypt(SB), NOSPLIT, $0-16
	MOVD dec+0(FP), R0
	MOVD b+8(FP), R1
	LOADKEYS
	VLD1 (R1), [V0.B16]
	DEC1(V16)
	DEC1(V17)
	DEC1(V18)
	DEC1(V19)
	DEC1(V20)
	DEC1(V21)
	DEC1(V22)
	DEC1(V23)
	DEC1(V24)
	AESD V25.B16, V0.B16
	VEOR V26.B16, V0.B16, V0.B16
	VST1 [V0.B16], (R1)
	RET

#define COUNTER(b) \
	VMOV V28.B16, b.B16; \
	VADD V29.B16, V28.B16, V28.B16

#define ROUND8(k) \
	ENC1(k, V0); \
	ENC1(k, V1); \
	ENC1(k, V2); \
	ENC1(k, V3); \
	ENC1(k, V4); \
	ENC1(k, V5); \
	ENC1(k, V6); \
	ENC1(k, V7)

#define LAST(b, m) \
	AESE V25.B16, b.B16;          \
	VEOR V26.B16, m.B16, m.B16;   \
	VEOR b.B16, m.B16, m.B16

// func aesCounter8(enc *roundKeys, iv *[16]byte, p *byte, groups int)
//
// Xors groups of eight blocks at p with the key stream. Only the counter's last
// byte moves: CGO clears its low six bits and never takes more than 64 blocks.
TEXT ·aesCounter8(SB), NOSPLIT, $0-32
	MOVD enc+0(FP), R0
	MOVD iv+8(FP), R1
	MOVD p+16(FP), R2
	MOVD groups+24(FP), R3
	LOADKEYS
	VLD1 (R1), [V28.B16]
	VEOR V29.B16, V29.B16, V29.B16
	MOVD $1, R9
	VMOV R9, V29.B[15]

eight:
	COUNTER(V0)
	COUNTER(V1)
	COUNTER(V2)
	COUNTER(V3)
	COUNTER(V4)
	COUNTER(V5)
	COUNTER(V6)
	COUNTER(V7)
	ROUND8(V16)
	ROUND8(V17)
	ROUND8(V18)
	ROUND8(V19)
	ROUND8(V20)
	ROUND8(V21)
	ROUND8(V22)
	ROUND8(V23)
	ROUND8(V24)
	MOVD   R2, R4
	VLD1.P 64(R2), [V8.B16, V9.B16, V10.B16, V11.B16]
	VLD1.P 64(R2), [V12.B16, V13.B16, V14.B16, V15.B16]
	LAST(V0, V8)
	LAST(V1, V9)
	LAST(V2, V10)
	LAST(V3, V11)
	LAST(V4, V12)
	LAST(V5, V13)
	LAST(V6, V14)
	LAST(V7, V15)
	VST1.P [V8.B16, V9.B16, V10.B16, V11.B16], 64(R4)
	VST1.P [V12.B16, V13.B16, V14.B16, V15.B16], 64(R4)
	SUB    $1, R3
	CBNZ   R3, eight
	RET
