package layer

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/chivenet/chive/internal/cell"
)

// The vectors keep the nested arrays of their source; at walks into one.
type vec []any

func (v vec) at(path ...int) any {
	var x any = []any(v)
	for _, i := range path {
		x = x.([]any)[i]
	}
	return x
}

func (v vec) hex(path ...int) []byte {
	b, err := hex.DecodeString(v.at(path...).(string))
	if err != nil {
		panic(err)
	}
	return b
}

func cgoVectors(t *testing.T, name string) (vs []vec) {
	b, err := os.ReadFile("testdata/cgo.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(all[name], &vs); err != nil || len(vs) == 0 {
		t.Fatal(name, err)
	}
	return vs
}

func uivOf(keys []byte) *uiv {
	u := new(uiv)
	u.setKeys((*[uivKeyLen]byte)(keys))
	return u
}

// state makes a cgo from (K, N, T') at a path of a vector.
func (v vec) state(path ...int) cgo {
	at := func(i int) []byte { return v.hex(append(append([]int{}, path...), i)...) }
	return cgo{uiv: *uivOf(at(0)), nonce: [16]byte(at(1)), tPrime: [16]byte(at(2))}
}

func (v vec) payload(t, c []byte) *[cell.PayloadLen]byte {
	p := new([cell.PayloadLen]byte)
	copy(p[copy(p[:], t):], c)
	return p
}

// same compares a state with (K, N, T') of a vector: keys by what they do.
func (v vec) same(t *testing.T, c *cgo, path ...int) {
	t.Helper()
	want := v.state(path...)
	if c.nonce != want.nonce || c.tPrime != want.tPrime {
		t.Error("nonce or T' differs")
	}
	var p, q [cell.PayloadLen]byte
	c.uiv.encrypt(&c.nonce, 3, &p)
	want.uiv.encrypt(&c.nonce, 3, &q)
	if p != q {
		t.Error("keys differ")
	}
}

// RFC 8452, appendix A.
func TestPolyval(t *testing.T) {
	unhex := func(s string) []byte { b, _ := hex.DecodeString(s); return b }
	var k polyKey
	k.set((*[16]byte)(unhex("25629347589242761d31f826ba4b757b")))
	var acc gf128
	k.absorb(&acc, unhex("4f4f95668c83dfb6401762bb2d01a262d1a24ddd2721d006bbe45f20d3c9f362"))
	var out [16]byte
	acc.store(&out)
	if !bytes.Equal(out[:], unhex("f7a3b47b846119fae5b7866cf5e5b77e")) {
		t.Errorf("%x", out)
	}
}

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

func TestPolyvalAgainstSlow(t *testing.T) {
	rnd := keyStream("polyval")
	draw := func() (e gf128) {
		var b [16]byte
		rnd.Read(b[:])
		return loadGF(&b)
	}
	ones := gf128{^uint64(0), ^uint64(0)}
	for n := range 200 {
		a, b := draw(), draw()
		switch n {
		case 0:
			a, b = ones, ones
		case 1:
			a = ones
		case 2:
			a = gf128{}
		}
		if a.dot(b) != slowDot(a, b) {
			t.Fatalf("%x * %x", a, b)
		}
		// Any number of blocks at once is the same as one by one.
		var key [16]byte
		b.store(&key)
		var k polyKey
		k.set(&key)
		blocks := make([]byte, 16*(n%40))
		rnd.Read(blocks)
		acc := a
		want := a
		k.absorb(&acc, blocks)
		for i := 0; i < len(blocks); i += 16 {
			x := loadGF((*[16]byte)(blocks[i:]))
			want = slowDot(gf128{want.lo ^ x.lo, want.hi ^ x.hi}, b)
		}
		if acc != want {
			t.Fatalf("%d blocks", n%40)
		}
	}
}

func TestCGOTweakableCipher(t *testing.T) {
	for i, v := range cgoVectors(t, "ET_TEST_VECTORS") {
		keys, tweak, in := v.hex(1), v.hex(2), v.hex(3)
		u := uivOf(append(keys, make([]byte, 32)...))
		p := v.payload(in, tweak[17:])
		m := u.mask((*[16]byte)(tweak), cell.Command(tweak[16]), p)
		b := [16]byte(in)
		xor16(&b, &m)
		if v.at(0).(bool) {
			u.kb.encrypt(&b)
		} else {
			u.kb.decrypt(&b)
		}
		xor16(&b, &m)
		if !bytes.Equal(b[:], v.hex(4)) {
			t.Errorf("vector %d", i)
		}
	}
}

func TestCGOPRF(t *testing.T) {
	for i, v := range cgoVectors(t, "PRF_TEST_VECTORS") {
		u := uivOf(append(make([]byte, 32), v.hex(0)...))
		want := v.hex(3)
		got := make([]byte, len(want))
		u.stream((*[16]byte)(v.hex(2)), byte(v.at(1).(float64))*prfCounters, got)
		if !bytes.Equal(got, want) {
			t.Errorf("vector %d", i)
		}
	}
}

func TestCGOWideBlock(t *testing.T) {
	for i, v := range cgoVectors(t, "UIV_TEST_VECTORS") {
		u, tweak := uivOf(v.hex(1)), v.hex(2)
		p := v.payload(v.hex(3), v.hex(4))
		if v.at(0).(bool) {
			u.encrypt((*[16]byte)(tweak), cell.Command(tweak[16]), p)
		} else {
			u.decrypt((*[16]byte)(tweak), cell.Command(tweak[16]), p)
		}
		if *p != *v.payload(v.hex(5, 0), v.hex(5, 1)) {
			t.Errorf("vector %d", i)
		}
	}
}

func TestCGOUpdate(t *testing.T) {
	for i, v := range cgoVectors(t, "UIV_UPDATE_TEST_VECTORS") {
		u := uivOf(v.hex(0))
		nonce := [16]byte(v.hex(1))
		u.update(&nonce, &nonce)
		var p, q [cell.PayloadLen]byte
		u.encrypt(&nonce, 3, &p)
		uivOf(v.hex(2, 0)).encrypt(&nonce, 3, &q)
		if p != q || !bytes.Equal(nonce[:], v.hex(2, 1)) {
			t.Errorf("vector %d", i)
		}
	}
}

func TestCGORelay(t *testing.T) {
	for i, v := range cgoVectors(t, "CGO_RELAY_TEST_VECTORS") {
		st := v.state(1)
		cmd := cell.Command(v.hex(2)[0])
		p := v.payload(v.hex(3), v.hex(4))
		c := &st
		if v.at(0).(bool) {
			r := &cgoRelayBackward{st}
			r.Encrypt(cmd, p)
			c = &r.cgo
		} else {
			r := &cgoRelayForward{st}
			r.Open(cmd, p)
			c = &r.cgo
		}
		v.same(t, c, 5, 0)
		if *p != *v.payload(v.hex(5, 1, 0), v.hex(5, 1, 1)) {
			t.Errorf("vector %d", i)
		}
	}
}

func TestCGORelayOriginate(t *testing.T) {
	for i, v := range cgoVectors(t, "CGO_RELAY_ORIGINATE_TEST_VECTORS") {
		r := &cgoRelayBackward{v.state(0)}
		p := v.payload(make([]byte, 16), v.hex(2))
		r.Originate(cell.Command(v.hex(1)[0]), p)
		v.same(t, &r.cgo, 3, 0)
		if *p != *v.payload(v.hex(3, 1, 0), v.hex(3, 1, 1)) || !bytes.Equal(r.Tag(), p[:16]) {
			t.Errorf("vector %d", i)
		}
	}
}

func TestCGOClientOriginate(t *testing.T) {
	for i, v := range cgoVectors(t, "CGO_CLIENT_ORIGINATE_TEST_VECTORS") {
		var hops [3]cgoClientForward
		for h := range hops {
			hops[h].cgo = v.state(0, h)
		}
		target := int(v.at(1).(float64)) - 1
		cmd := cell.Command(v.hex(2)[0])
		p := v.payload(make([]byte, 16), v.hex(3))
		hops[target].Originate(cmd, p)
		for h := target - 1; h >= 0; h-- {
			hops[h].Encrypt(cmd, p)
		}
		for h := range hops {
			v.same(t, &hops[h].cgo, 4, 0, h)
		}
		if *p != *v.payload(v.hex(4, 1, 0), v.hex(4, 1, 1)) {
			t.Errorf("vector %d", i)
		}
	}
}
