// AES and the field of POLYVAL on 512-bit registers, a block in each 128 bits.

// ROUND9 is one round of AES on Z16 to Z24, and LAST9 the last one. They
// clobber Z15.
#define ROUND9(key) \
	VBROADCASTI32X4 key, Z15; \
	VAESENC Z15, Z16, Z16;    \
	VAESENC Z15, Z17, Z17;    \
	VAESENC Z15, Z18, Z18;    \
	VAESENC Z15, Z19, Z19;    \
	VAESENC Z15, Z20, Z20;    \
	VAESENC Z15, Z21, Z21;    \
	VAESENC Z15, Z22, Z22;    \
	VAESENC Z15, Z23, Z23;    \
	VAESENC Z15, Z24, Z24

#define LAST9(key) \
	VBROADCASTI32X4 key, Z15;  \
	VAESENCLAST Z15, Z16, Z16; \
	VAESENCLAST Z15, Z17, Z17; \
	VAESENCLAST Z15, Z18, Z18; \
	VAESENCLAST Z15, Z19, Z19; \
	VAESENCLAST Z15, Z20, Z20; \
	VAESENCLAST Z15, Z21, Z21; \
	VAESENCLAST Z15, Z22, Z22; \
	VAESENCLAST Z15, Z23, Z23; \
	VAESENCLAST Z15, Z24, Z24

// POLYNOMIAL puts its upper half, x^127 + x^126 + x^121, into both halves of
// each block of Z31.
#define POLYNOMIAL \
	MOVQ         $0xc200000000000000, AX; \
	VPBROADCASTQ AX, Z31

// MUL sets hi, mid, lo to the product of a and b, block by block, 256 bits
// without reduction. It clobbers t.
#define MUL(a, b, hi, mid, lo, t) \
	VPCLMULQDQ $0x00, b, a, lo;  \
	VPCLMULQDQ $0x01, b, a, t;   \
	VPCLMULQDQ $0x10, b, a, mid; \
	VPCLMULQDQ $0x11, b, a, hi;  \
	VPXORQ     t, mid, mid

// REDUCE leaves in lo the sum in hi, mid, lo times x^-128, block by block:
// cancel the lowest 64 bits with a multiple of the polynomial, drop them, twice.
#define REDUCE(hi, mid, lo, poly, t, s) \
	VPCLMULQDQ $0x00, poly, lo, t; \
	VPSLLDQ    $8, mid, s;         \
	VPSRLDQ    $8, mid, mid;       \
	VPXORQ     s, lo, lo;          \
	VPXORQ     mid, hi, hi;        \
	VPSHUFD    $0x4e, lo, lo;      \
	VPXORQ     t, lo, lo;          \
	VPCLMULQDQ $0x00, poly, lo, t; \
	VPSHUFD    $0x4e, lo, lo;      \
	VPTERNLOGQ $0x96, t, hi, lo
