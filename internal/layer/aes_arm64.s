#include "textflag.h"

// AES-128 with AESE and AESMC; see uiv_kernel.go for why. Every function here
// runs the same instructions whatever the data.

// EXPAND makes the next round key in R4 to R7. AESE with a zero key substitutes
// bytes and shifts rows; rows of four equal words do not notice the shift.
#define EXPAND(rcon) \
	VDUP  R7, V0.S4;       \
	AESE  V30.B16, V0.B16; \
	VMOV  V0.S[0], R8;     \
	RORW  $8, R8, R8;      \
	EORW  $rcon, R8, R8;   \
	EORW  R8, R4, R4;      \
	EORW  R4, R5, R5;      \
	EORW  R5, R6, R6;      \
	EORW  R6, R7, R7;      \
	STPW  (R4, R5), (R0);  \
	STPW  (R6, R7), 8(R0); \
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
	AESE V25.B16, b.B16;        \
	VEOR V26.B16, m.B16, m.B16; \
	VEOR b.B16, m.B16, m.B16

// EIGHT leaves the next eight blocks of key stream in V0 to V7 but for the last
// round.
#define EIGHT \
	COUNTER(V0); \
	COUNTER(V1); \
	COUNTER(V2); \
	COUNTER(V3); \
	COUNTER(V4); \
	COUNTER(V5); \
	COUNTER(V6); \
	COUNTER(V7); \
	ROUND8(V16); \
	ROUND8(V17); \
	ROUND8(V18); \
	ROUND8(V19); \
	ROUND8(V20); \
	ROUND8(V21); \
	ROUND8(V22); \
	ROUND8(V23); \
	ROUND8(V24)

// WHOLE xors the next eight blocks at R2.
#define WHOLE \
	EIGHT;                                               \
	MOVD   R2, R4;                                       \
	VLD1.P 64(R2), [V8.B16, V9.B16, V10.B16, V11.B16];   \
	VLD1.P 64(R2), [V12.B16, V13.B16, V14.B16, V15.B16]; \
	LAST(V0, V8);                                        \
	LAST(V1, V9);                                        \
	LAST(V2, V10);                                       \
	LAST(V3, V11);                                       \
	LAST(V4, V12);                                       \
	LAST(V5, V13);                                       \
	LAST(V6, V14);                                       \
	LAST(V7, V15);                                       \
	VST1.P [V8.B16, V9.B16, V10.B16, V11.B16], 64(R4);   \
	VST1.P [V12.B16, V13.B16, V14.B16, V15.B16], 64(R4)

// Only the counter's last byte moves: CGO clears its low six bits and never
// takes more than 64 blocks.
#define FIRST \
	LOADKEYS;                       \
	VLD1 (R1), [V28.B16];           \
	VEOR V29.B16, V29.B16, V29.B16; \
	MOVD $1, R9;                    \
	VMOV R9, V29.B[15]

// func aesPayload(enc *roundKeys, iv *[16]byte, p *[cell.PayloadLen]byte)
//
// The last block is 13 bytes, and three before it go through the same register
// unchanged; the block that they belong to is stored after it.
TEXT ·aesPayload(SB), NOSPLIT, $0-24
	MOVD   enc+0(FP), R0
	MOVD   iv+8(FP), R1
	MOVD   p+16(FP), R2
	FIRST
	ADD    $16, R2, R2
	WHOLE
	WHOLE
	WHOLE
	EIGHT
	MOVD   R2, R4
	VLD1.P 64(R2), [V8.B16, V9.B16, V10.B16, V11.B16]
	VLD1.P 32(R2), [V12.B16, V13.B16]
	SUB    $3, R2, R3
	VLD1   (R3), [V14.B16]
	LAST(V0, V8)
	LAST(V1, V9)
	LAST(V2, V10)
	LAST(V3, V11)
	LAST(V4, V12)
	LAST(V5, V13)
	AESE   V25.B16, V6.B16
	VEOR   V26.B16, V6.B16, V6.B16
	VEOR   V30.B16, V30.B16, V30.B16
	VEXT   $13, V6.B16, V30.B16, V6.B16
	VEOR   V6.B16, V14.B16, V14.B16
	VST1   [V14.B16], (R3)
	VST1.P [V8.B16, V9.B16, V10.B16, V11.B16], 64(R4)
	VST1   [V12.B16, V13.B16], (R4)
	RET

// func aesEight(enc *roundKeys, iv *[16]byte, p *[128]byte)
TEXT ·aesEight(SB), NOSPLIT, $0-24
	MOVD enc+0(FP), R0
	MOVD iv+8(FP), R1
	MOVD p+16(FP), R2
	FIRST
	WHOLE
	RET
