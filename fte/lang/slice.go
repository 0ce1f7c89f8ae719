package lang

import (
	"math/big"
	"sync"
	"unsafe"

	"github.com/chivenet/chive/internal/fault"
)

// Bounds of a slice's tables. They limit a slice to a few megabytes.
const (
	maxSliceLen   = 1 << 16 // bytes in a word
	maxSliceNodes = 1 << 18 // pairs of position and state
	maxSliceRuns  = 1 << 18 // runs of symbols, of 64 bytes at most each
	maxSliceLimbs = 1 << 22 // 64-bit limbs of stored counts
	maxSliceWork  = 1 << 28 // limb additions when the counts are made
)

// A Slice is the words of one exact length, numbered from 0 in lexicographic
// order. It is immutable, and safe for use by several goroutines.
type Slice struct {
	lang   *Language
	n      int
	limbs  int // limbs of the largest number, and two more that stay zero
	bytes  int
	count  []uint64
	nodes  []sliceNode // the first is the start
	runs   []run
	chains []*chain
	stored int       // limbs that runs have
	pool   sync.Pool // of *[]uint64 with 2*limbs, for slices beyond stackLimbs
}

// A sliceNode is a state at a position. From it a word can be completed.
type sliceNode struct {
	alpha *alphabet
	// chain is the index of the chain that covers the rest of the word. If it is
	// -1, the transitions are in runs[first:last].
	chain       int32
	first, last int32
}

// A run is a range of neighbouring symbols of a node's alphabet that lead to the
// same node.
type run struct {
	node  int32  // the node that they lead to
	start uint16 // digit of the first symbol
	size  uint16 // number of symbols
	words []uint64
	// The quotient of a number below 512*words by words is window(number, at) *
	// inv, within quotientError; at < 0 means that both fit into one limb.
	at  int
	inv float64
	// wide means that the number may be far larger, with bits above the window,
	// because later runs have more words.
	wide bool
}

// quotientError bounds the error of an estimated quotient, which is at most
// 256: both operands are cut to 48 bits or more.
const quotientError = 1.0 / (1 << 36)

// Slice numbers the words of exactly n bytes. It returns an error of kind
// fault.Config if there is no such word, and of kind fault.Resource if the
// tables would be too large.
func (l *Language) Slice(n int) (*Slice, error) {
	if n < 0 || n > maxSliceLen {
		return nil, fault.New(fault.Config, "words of %d bytes: a slice has 0 to %d", n, maxSliceLen)
	}
	b := &sliceBuilder{s: &Slice{lang: l, n: n}}
	if err := b.reach(); err != nil {
		return nil, err
	}
	if err := b.build(); err != nil {
		return nil, err
	}
	return b.s, nil
}

// Len returns the length of every word, in bytes.
func (s *Slice) Len() int { return s.n }

// Count returns the number of words, N.
func (s *Slice) Count() *big.Int {
	c := make([]byte, 8*len(s.count))
	toBytes(c, s.count)
	return new(big.Int).SetBytes(c)
}

// CapacityBits returns floor(log2 N) - 1, fteproxy's capacity. It is below 0
// for a slice of one word.
func (s *Slice) CapacityBits() int { return bitLen(s.count) - 2 }

// Size returns the approximate size of the slice's tables in bytes, without those
// of its language.
func (s *Slice) Size() int {
	n := len(s.nodes)*int(unsafe.Sizeof(sliceNode{})) + len(s.runs)*int(unsafe.Sizeof(run{})) + 8*s.stored
	for _, ch := range s.chains {
		n += 8*len(ch.alpha) + len(ch.blocks)*int(unsafe.Sizeof(block{}))
	}
	return n
}

// Bytes returns the number of bytes that one word carries:
// floor(CapacityBits/8), and 0 if that is negative.
func (s *Slice) Bytes() int { return s.bytes }

// stackLimbs is the largest number that Rank and Unrank keep on the stack; it
// covers words of 256 bytes in any language.
const stackLimbs = 36

// Unrank writes word number x to dst. x has Bytes bytes, big-endian, and dst has
// Len bytes; anything else is an error of kind fault.Local.
func (s *Slice) Unrank(dst, x []byte) error {
	if len(dst) != s.n || len(x) != s.bytes {
		return fault.New(fault.Local, "unrank %d bytes into %d: the slice maps %d bytes to %d", len(x), len(dst), s.bytes, s.n)
	}
	if s.limbs <= stackLimbs {
		var buf [stackLimbs]uint64
		s.unrank(dst, x, buf[:s.limbs])
		return nil
	}
	buf := s.pool.Get().(*[]uint64)
	s.unrank(dst, x, (*buf)[:s.limbs])
	s.pool.Put(buf)
	return nil
}

// unrank is Unrank with space for the number.
func (s *Slice) unrank(dst, x []byte, c []uint64) {
	fromBytes(c, x)
	node := &s.nodes[0]
	for i := range dst {
		if node.chain >= 0 {
			s.chains[node.chain].unrank(dst, i, c[:len(c)-2])
			return
		}
		runs := s.runs[node.first:node.last]
		for k := range runs {
			r := &runs[k]
			q, in := r.quotient(c, k == len(runs)-1)
			if in {
				dst[i] = node.alpha.symbols[int(r.start)+q]
				node = &s.nodes[r.node]
				break
			}
		}
	}
}

// limit returns an e such that a number of 2^e or more is above the run, and too
// large for the run's estimate.
func (r *run) limit() int {
	if r.at < 0 {
		return 64
	}
	return r.at + 62
}

// quotient divides c by the words of the run. If that is below the run's size, it
// returns the quotient and true, and leaves the remainder in c. Otherwise it
// subtracts all words of the run from c.
func (r *run) quotient(c []uint64, last bool) (q int, in bool) {
	if r.size == 1 && last {
		return 0, true
	}
	if r.wide && !last && exceeds(c, r.limit()) {
		takeOff(c, r.words, uint64(r.size))
		return 0, false
	}
	if r.at < 0 {
		v := c[0] / r.words[0]
		if v >= uint64(r.size) {
			c[0] -= r.words[0] * uint64(r.size)
			return 0, false
		}
		c[0] -= v * r.words[0]
		return int(v), true
	}
	x := float64(int64(window(c, r.at))) * r.inv
	if !last && x > float64(r.size)-quotientError {
		if subMul(c, r.words, uint64(r.size)) == 0 {
			return 0, false
		}
		add(c, r.words) // the estimate was at the border, and c is just below it
		return int(r.size) - 1, true
	}
	q = min(int(x), int(r.size)-1)
	if q > 0 && subMul(c, r.words, uint64(q)) != 0 {
		add(c, r.words)
		return q - 1, true
	}
	if x-float64(q) > 1-quotientError && !less(c, r.words) {
		sub(c, r.words)
		q++
	}
	return q, true
}

// Rank writes the number of word to x. The sizes are those of Unrank. A word that
// is not in the slice, or whose number does not fit, is an error of kind
// fault.Protocol.
func (s *Slice) Rank(x, word []byte) error {
	if len(word) != s.n || len(x) != s.bytes {
		return fault.New(fault.Local, "rank %d bytes into %d: the slice maps %d bytes to %d", len(word), len(x), s.n, s.bytes)
	}
	if s.limbs <= stackLimbs {
		var buf [2 * stackLimbs]uint64
		return s.rankInto(x, word, buf[:s.limbs], buf[s.limbs:2*s.limbs])
	}
	buf := s.pool.Get().(*[]uint64)
	clear(*buf)
	err := s.rankInto(x, word, (*buf)[:s.limbs], (*buf)[s.limbs:])
	s.pool.Put(buf)
	return err
}

// rankInto is Rank with space for two numbers, which must be zero.
func (s *Slice) rankInto(x, word []byte, c, tmp []uint64) error {
	node := &s.nodes[0]
	for i, b := range word {
		if node.chain >= 0 {
			if !s.chains[node.chain].rank(c, tmp, word, i) {
				return errNotAWord
			}
			break
		}
		d := node.alpha.digit[b]
		if d == noSymbol {
			return errNotAWord
		}
		for k := node.first; ; k++ {
			r := &s.runs[k]
			if d-r.start < r.size {
				if d > r.start {
					addMul(c, r.words, uint64(d-r.start))
				}
				node = &s.nodes[r.node]
				break
			}
			addMul(c, r.words, uint64(r.size))
		}
	}
	if !toBytes(x, c) {
		return errRange
	}
	return nil
}

var (
	errNotAWord = fault.New(fault.Protocol, "the bytes are not a word of the language")
	errRange    = fault.New(fault.Protocol, "the word's number is larger than a word can carry")
)
