package equix

import "testing"

// TestBatch compares batches of several lengths with the reference, over programs and inputs of all kinds.
func TestBatch(t *testing.T) {
	m := newMaker()
	var b batch
	for n := range 20 {
		if !m.program(challenge(n)) {
			t.Fatalf("challenge %d is unusable", n)
		}
		for _, size := range []int{1, 7, 8, 9, 100, batchLen} {
			in, out := make([]uint64, size), make([]uint64, size)
			for i := range in {
				in[i] = uint64(i+n) * 0x9e3779b97f4a7c15
			}
			b.hash(&m.p, in, out)
			for i, x := range in {
				if want := m.p.slowHash(x); out[i] != want {
					t.Fatalf("challenge %d, %d inputs: H(%d) is %x, not %x", n, size, x, out[i], want)
				}
			}
		}
	}
}

func BenchmarkHash(b *testing.B) {
	m := newMaker()
	if !m.program(challenge(1)) {
		b.Fatal("unusable")
	}
	var ba batch
	var out [batchLen]uint64
	for b.Loop() {
		ba.hashRange(&m.p, 0, out[:])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batchLen, "ns/hash")
}
