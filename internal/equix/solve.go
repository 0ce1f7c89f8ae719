package equix

import (
	"context"
	"encoding/binary"
)

// indices is how many indices there are.
const indices = 1 << 16

// maxSolutions is how many solutions Solve returns. A challenge has more than eight once in four thousand times.
const maxSolutions = 8

// Solver finds solutions. It holds 1.6 MB, which every Solve uses again; it is not for concurrent use.
//
// It follows Wagner's algorithm for the generalized birthday problem: it lists the pairs of indices
// with a sum that ends in 15 zero bits, the pairs of these pairs, and the pairs of these. On average
// each list is as long as the one before it.
type Solver struct {
	maker  maker
	batch  batch
	hashes [batchLen]uint64

	index  [buckets][bucketLen]uint16 // the indices of the items of the first layer
	even   table                      // the first layer, and later the third: its references are to odd
	odd    table                      // the second layer: its references are to index
	chains chains
	found  [][2]uint64 // each solution as two items of the third layer
}

// NewSolver returns a Solver.
func NewSolver() *Solver { return &Solver{maker: newMaker()} }

// Solve returns the solutions of a challenge, at most eight. A challenge has two on average; it may have none.
// The error is ErrUnusable, or that of ctx if it ends first.
//
// Solve does not look for solutions in which a side of a sum consists of the same indices as the other side. Verify
// accepts these, but one solution in ten thousand is such.
func (s *Solver) Solve(ctx context.Context, challenge []byte) ([][16]byte, error) {
	if !s.maker.program(challenge) {
		return nil, ErrUnusable
	}
	if err := s.singles(ctx); err != nil {
		return nil, err
	}
	if err := s.join(ctx, &s.even, &s.odd, singleAt); err != nil {
		return nil, err
	}
	if err := s.join(ctx, &s.odd, &s.even, pairAt); err != nil {
		return nil, err
	}
	s.found = s.found[:0]
	if err := s.join(ctx, &s.even, nil, quadAt); err != nil {
		return nil, err
	}
	solutions := make([][16]byte, len(s.found))
	for i, f := range s.found {
		a, b := s.quad(f[0]), s.quad(f[1])
		binary.LittleEndian.PutUint64(solutions[i][:8], min(a, b))
		binary.LittleEndian.PutUint64(solutions[i][8:], max(a, b))
	}
	return solutions, nil
}

// singles makes the first layer: the hash of each index.
func (s *Solver) singles(ctx context.Context) error {
	clear(s.even.n[:])
	for first := 0; first < indices; first += batchLen {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.batch.hashRange(&s.maker.p, uint64(first), s.hashes[:])
		for i, h := range s.hashes {
			b := uint8(h)
			if n := s.even.n[b]; n < bucketLen {
				s.index[b][n] = uint16(first + i)
			}
			s.even.add(b, h>>bucketBits<<singleAt)
		}
	}
	return nil
}

// join finds the pairs of items whose sums have 15 more zero bits, and puts them into the table of
// the next layer. Without such a table, it finds those whose remaining bits are all zero. at
// is where sums begin in the items.
func (s *Solver) join(ctx context.Context, in, out *table, at uint) error {
	if out != nil {
		clear(out.n[:])
	}
	for n := range buckets/2 + 1 { // the other half of the buckets are opposites of these
		if err := ctx.Err(); err != nil {
			return err
		}
		b := uint8(n)
		s.joinBucket(in, out, b, at)
	}
	return nil
}

// joinBucket joins a bucket with its opposite. These are the same for buckets 0 and 128.
func (s *Solver) joinBucket(in, out *table, b uint8, at uint) {
	o := opposite(b)
	left, right := in.bucket(b), in.bucket(o)
	s.chains.fill(right, at)
	carry := uint64(0) // of the sum of the 8 bits that the bucket stands for
	if b != 0 {
		carry = 1 << (at & 63)
	}
	kept := ^uint64(0) << (at & 63)
	next := at + chainBits
	for i, x := range left {
		x = x&kept + carry
		k := s.chains.head[-x>>(at&63)%(1<<chainBits)]
		for ; k != 0; k = s.chains.next[k-1] {
			j := int(k - 1)
			if b == o && j >= i {
				continue // each pair once
			}
			sum := x + right[j]&kept
			switch {
			case out != nil:
				out.add(uint8(sum>>(next&63)), sum>>(next&63)>>bucketBits<<((next+bucketBits)&63)|reference(b, i, j))
			case sum == 0 && len(s.found) < maxSolutions:
				s.found = append(s.found, [2]uint64{left[i], right[j]})
			}
		}
	}
}

// quad returns the four indices of an item of the third layer in their order, as one integer.
func (s *Solver) quad(item uint64) uint64 {
	b, i, o, j := parts(item)
	x, y := s.pair(s.odd.items[b][i]), s.pair(s.odd.items[o][j])
	return uint64(min(x, y)) | uint64(max(x, y))<<32
}

// pair does the same for an item of the second layer, which has two indices.
func (s *Solver) pair(item uint64) uint32 {
	b, i, o, j := parts(item)
	x, y := s.index[b][i], s.index[o][j]
	return uint32(min(x, y)) | uint32(max(x, y))<<16
}
