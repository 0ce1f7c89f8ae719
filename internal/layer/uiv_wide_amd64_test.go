package layer

import (
	"io"
	"testing"
)

// The wide form's keys are the kernel's, and more powers.
func TestWideKeys(t *testing.T) {
	if !haveWide || !haveKernel {
		t.Skip("this CPU has no vector AES")
	}
	rnd := keyStream("wide keys")
	for range 20 {
		for _, s := range []sense{encrypts, decrypts} {
			var keys [uivKeyLen]byte
			io.ReadFull(rnd, keys[:])
			w, k := wideUIV{sense: s}, kernelUIV{sense: s}
			w.setKeys(&keys)
			k.setKeys(&keys)
			if w.kb != k.kb || w.k != k.k || w.b != k.b {
				t.Fatal("round keys, or the selector's hash key, differ")
			}
			h := loadGF((*[16]byte)(keys[16:]))
			for i, want := 31, h; i >= 0; i, want = i-1, slowDot(want, h) {
				if w.ku[i] != want {
					t.Fatalf("power %d differs", 32-i)
				}
			}
		}
	}
}

// tor1 keeps to its vectors on narrower registers too.
func TestNarrowStreams(t *testing.T) {
	wide, vector := haveWide, haveVector
	t.Cleanup(func() { haveWide, haveVector = wide, vector })
	for _, c := range []struct {
		name string
		have *bool
	}{{"256 bits", &haveWide}, {"128 bits", &haveVector}} {
		if !*c.have {
			continue // the other tests run this stream
		}
		*c.have = false
		for name, f := range map[string]func(*testing.T){
			"against library": TestStreamAgainstLibrary,
			"vectors":         TestTor1Vectors, "looks recognised": TestTor1LooksRecognised,
			"mixed paths": TestMixedPaths, "tampered": TestTampered, "no allocations": TestNoAllocations,
		} {
			t.Run(c.name+"/"+name, f)
		}
	}
}
