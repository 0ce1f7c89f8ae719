package layer

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"testing"

	"github.com/chivenet/chive/internal/cell"
)

// slowDot multiplies bit by bit.
func slowDot(a, b gf128) (r gf128) {
	// r = a*b*x^-128: Horner from b's lowest bit, dividing by x each time.
	for i := range 128 {
		w := b.lo
		if i >= 64 {
			w = b.hi
		}
		if w>>(i%64)&1 == 1 {
			r.lo ^= a.lo
			r.hi ^= a.hi
		}
		odd := r.lo & 1
		r.lo = r.lo>>1 | r.hi<<63
		r.hi >>= 1
		if odd == 1 { // + x^128+x^127+x^126+x^121+1, then / x
			r.hi ^= 1<<63 | 1<<62 | 1<<61 | 1<<56
		}
	}
	return r
}

// slowPolyval is POLYVAL of whole blocks, bit by bit.
func slowPolyval(key [16]byte, blocks []byte) (out [16]byte) {
	var acc gf128
	for i := 0; i < len(blocks); i += 16 {
		x := loadGF((*[16]byte)(blocks[i:]))
		acc = slowDot(gf128{acc.lo ^ x.lo, acc.hi ^ x.hi}, loadGF(&key))
	}
	acc.store(&out)
	return out
}

// slowET is the tweakable block cipher of proposal 359, on X_L in place, and
// slowPRF its pseudorandom function, n bytes of stream t.
func slowET(s sense, keys, tweak, left []byte) {
	padded := append(append([]byte{}, tweak...), make([]byte, 16*32-len(tweak))...)
	m := slowPolyval([16]byte(keys[16:]), padded)
	b, err := aes.NewCipher(keys[:16])
	if err != nil {
		panic(err)
	}
	xor := func() {
		for i := range m {
			left[i] ^= m[i]
		}
	}
	xor()
	if s == decrypts {
		b.Decrypt(left, left)
	} else {
		b.Encrypt(left, left)
	}
	xor()
}

func slowPRF(keys []byte, sel [16]byte, t, n int) []byte {
	iv := slowPolyval([16]byte(keys[16:]), sel[:])
	iv[15] = iv[15]&0xc0 + byte(31*t)
	b, err := aes.NewCipher(keys[:16])
	if err != nil {
		panic(err)
	}
	out := make([]byte, n)
	cipher.NewCTR(b, iv[:]).XORKeyStream(out, out)
	return out
}

// slowUIV is the reference that every form is held to: proposal 359 as it is
// written, its field arithmetic bit by bit.
type slowUIV struct {
	sense    sense
	keys     [uivKeyLen]byte
	selector [16]byte
}

func (u *slowUIV) setKeys(k *[uivKeyLen]byte) { u.keys = *k }

func (u *slowUIV) crypt(chain *[16]byte, cmd cell.Command, p *[cell.PayloadLen]byte) {
	et := func() {
		tweak := append(append(chain[:], byte(cmd)), p[16:]...)
		slowET(u.sense, u.keys[:32], tweak, p[:16])
	}
	mask := func() {
		for i, x := range slowPRF(u.keys[32:], u.selector, 0, cell.PayloadLen-16) {
			p[16+i] ^= x
		}
	}
	if u.sense == decrypts {
		u.selector = *tagOf(p)
		mask()
		et()
	} else {
		et()
		u.selector = *tagOf(p)
		mask()
	}
	*chain = u.selector
}

func (u *slowUIV) rekey(nonce *[cgoTagLen]byte) {
	fresh := slowPRF(u.keys[32:], u.selector, 1, freshLen)
	u.keys, *nonce = [uivKeyLen]byte(fresh), [cgoTagLen]byte(fresh[uivKeyLen:])
}

func (v vec) sense(path ...int) sense { return sense(!v.at(path...).(bool)) }

// The reference's parts are held to the published vectors of the parts.
func TestSlowParts(t *testing.T) {
	for i, v := range cgoVectors(t, "ET_TEST_VECTORS") {
		b := v.hex(3)
		slowET(v.sense(0), v.hex(1), v.hex(2), b)
		if string(b) != string(v.hex(4)) {
			t.Errorf("tweakable cipher, vector %d", i)
		}
	}
	for i, v := range cgoVectors(t, "PRF_TEST_VECTORS") {
		want := v.hex(3)
		got := slowPRF(v.hex(0), [16]byte(v.hex(2)), int(v.at(1).(float64)), len(want))
		if string(got) != string(want) {
			t.Errorf("pseudorandom function, vector %d", i)
		}
	}
	// RFC 8452, appendix A.
	unhex := func(s string) []byte { b, _ := hex.DecodeString(s); return b }
	got := slowPolyval([16]byte(unhex("25629347589242761d31f826ba4b757b")),
		unhex("4f4f95668c83dfb6401762bb2d01a262d1a24ddd2721d006bbe45f20d3c9f362"))
	if string(got[:]) != string(unhex("f7a3b47b846119fae5b7866cf5e5b77e")) {
		t.Errorf("POLYVAL: %x", got)
	}
}
