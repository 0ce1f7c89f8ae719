package layer

import "testing"

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
		// Any number of blocks.
		var key, got [16]byte
		b.store(&key)
		blocks := make([]byte, 16*(n%40))
		rnd.Read(blocks)
		var acc gf128
		polyGeneric(&acc, &b, blocks)
		if acc.store(&got); got != slowPolyval(key, blocks) {
			t.Fatalf("%d blocks", n%40)
		}
	}
}
