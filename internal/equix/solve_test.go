package equix

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"unsafe"
)

func challenge(n int) []byte {
	return binary.BigEndian.AppendUint32([]byte("challenge "), uint32(n))
}

// TestSolve solves challenges and verifies the solutions.
func TestSolve(t *testing.T) {
	s := NewSolver()
	total, usable := 0, 0
	for n := range 40 {
		solutions, err := s.Solve(context.Background(), challenge(n))
		if errors.Is(err, ErrUnusable) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		usable++
		total += len(solutions)
		for _, x := range solutions {
			if err := Verify(challenge(n), &x); err != nil {
				t.Errorf("challenge %d, solution %x: %v", n, x, err)
			}
		}
	}
	t.Logf("%d usable, %d solutions, %d bytes", usable, total, unsafe.Sizeof(*s))
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

func BenchmarkSolve(b *testing.B) {
	s := NewSolver()
	n := 0
	for b.Loop() {
		for {
			n++
			if _, err := s.Solve(context.Background(), challenge(n)); err == nil {
				break
			}
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	proofs := readProofs(b)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		p := &proofs[n%len(proofs)]
		if err := Verify(p.challenge, &p.solution); err != nil {
			b.Fatal(err)
		}
		n++
	}
}
