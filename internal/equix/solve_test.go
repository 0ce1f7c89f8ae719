package equix

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"unsafe"
)

// challenge returns a challenge of the series that these tests use.
func challenge(n int) []byte {
	return binary.BigEndian.AppendUint32([]byte("challenge "), uint32(n))
}

// TestSolve compares the solutions of challenges with those of the slow solver, and verifies them.
func TestSolve(t *testing.T) {
	challenges := 6
	if testing.Short() {
		challenges = 3
	}
	s := NewSolver()
	total := 0
	for n := range challenges {
		got, err := s.Solve(context.Background(), challenge(n))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range got {
			if err := Verify(challenge(n), &x); err != nil {
				t.Errorf("challenge %d, solution %x: %v", n, x, err)
			}
		}
		want := slowSolve(&s.maker.p)
		slices.SortFunc(got, compare)
		slices.SortFunc(want, compare)
		if !slices.Equal(got, want) {
			t.Errorf("challenge %d: solutions %x, not %x", n, got, want)
		}
		total += len(got)
	}
	t.Logf("%d challenges have %d solutions", challenges, total)
	if total < challenges/2 {
		t.Error("that are too few")
	}
}

func compare(a, b [16]byte) int { return slices.Compare(a[:], b[:]) }

// slowSolve lists pairs, pairs of pairs and pairs of these by maps.
func slowSolve(p *program) [][16]byte {
	type side struct {
		sum     uint64
		indices []byte
	}
	var layer []side
	var b batch
	var h [batchLen]uint64
	for first := 0; first < 1<<16; first += batchLen {
		b.hashRange(p, uint64(first), h[:])
		for i, x := range h {
			layer = append(layer, side{x, binary.LittleEndian.AppendUint16(nil, uint16(first+i))})
		}
	}
	for _, zero := range []int{15, 30, 60} {
		mask := uint64(1)<<zero - 1
		seen := map[uint64][]side{}
		var next []side
		for _, x := range layer {
			for _, y := range seen[-x.sum&mask] {
				l, r := x.indices, y.indices
				if reversed(l, r) > 0 {
					l, r = r, l
				}
				next = append(next, side{x.sum + y.sum, slices.Concat(l, r)})
			}
			seen[x.sum&mask] = append(seen[x.sum&mask], x)
		}
		layer = next
	}
	var all [][16]byte
	for _, x := range layer {
		all = append(all, [16]byte(x.indices))
	}
	return all
}

// reversed compares two little-endian integers.
func reversed(a, b []byte) int {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Reverse(a)
	slices.Reverse(b)
	return slices.Compare(a, b)
}

// interrupted is a context that ends when it was asked a number of times.
type interrupted struct {
	context.Context
	left int
}

func (c *interrupted) Err() error {
	c.left--
	if c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestSolveStops ends the context at several times. Solve asks it before each batch of hashes and each bucket.
func TestSolveStops(t *testing.T) {
	s := NewSolver()
	const asks = indices/batchLen + 3*(buckets/2+1)
	for _, left := range []int{0, 1, indices/batchLen - 1, indices / batchLen, asks - 1} {
		c := &interrupted{context.Background(), left}
		if _, err := s.Solve(c, challenge(1)); !errors.Is(err, context.Canceled) || c.left != -1 {
			t.Errorf("after %d: %v, asked %d times more", left, err, -1-c.left)
		}
	}
	want, err := NewSolver().Solve(context.Background(), challenge(2))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Solve(&interrupted{context.Background(), asks}, challenge(2))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%x and %v after interruptions, not %x", got, err, want)
	}
}

// TestSolverMemory checks what the comment on Solver says.
func TestSolverMemory(t *testing.T) {
	if n := unsafe.Sizeof(Solver{}); n > 1.61e6 {
		t.Errorf("a Solver has %d bytes", n)
	}
	s, c := NewSolver(), challenge(1)
	if n := testing.AllocsPerRun(10, func() { // on average: other goroutines allocate too
		if _, err := s.Solve(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations, more than the solutions", n)
	}
}

// TestTableOverflow fills a bucket: more items are lost, and nothing else.
func TestTableOverflow(t *testing.T) {
	table := new(table)
	for range bucketLen + 10 {
		table.add(7, 1)
	}
	if n := len(table.bucket(7)); n != bucketLen {
		t.Errorf("%d items", n)
	}
	if len(table.bucket(6))+len(table.bucket(8)) != 0 {
		t.Error("other buckets have items")
	}
}

func BenchmarkSolve(b *testing.B) {
	s := NewSolver()
	n := 0
	for b.Loop() {
		if _, err := s.Solve(context.Background(), challenge(n%1000)); err != nil {
			b.Fatal(err)
		}
		n++
	}
}
