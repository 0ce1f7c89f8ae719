package lang

import (
	"github.com/chivenet/chive/internal/fault"
)

// maxChainFactor bounds the total length of all chains of a slice, as a multiple
// of the slice's length.
const maxChainFactor = 64

// sliceBuilder makes the tables of a slice.
type sliceBuilder struct {
	s       *Slice
	at      [][]int32 // states that can be reached, by position
	work    int       // limb additions
	chained int       // positions in all chains
}

// A column holds the builder's counts for a state at one position.
type column struct {
	words  []uint64 // ways to complete a word
	stored []uint64 // the same, kept for the slice's runs
	node   int32
}

// errTooLarge is the error for a slice whose tables exceed a bound.
func (b *sliceBuilder) errTooLarge() error {
	return fault.New(fault.Resource, "the tables for words of %d bytes of pattern %q are too large: use shorter words", b.s.n, b.s.lang.pattern)
}

// reach lists the states that can be reached from the start, by position.
func (b *sliceBuilder) reach() error {
	l := b.s.lang
	seen := make([]int, l.States())
	list := []int32{0}
	b.at = append(b.at, list)
	total := 1
	for i := 1; i <= b.s.n; i++ {
		var next []int32
		for _, q := range list {
			for _, t := range l.d.next[q] {
				if t != dead && seen[t] != i {
					seen[t] = i
					next = append(next, t)
				}
			}
		}
		if total += len(next); total > maxSliceNodes {
			return b.errTooLarge()
		}
		b.at = append(b.at, next)
		list = next
	}
	return nil
}

// build counts words from the end and stores the tables that coding needs.
func (b *sliceBuilder) build() error {
	s, l := b.s, b.s.lang
	// The columns of two neighbouring positions, by state.
	cur, after := make([]column, l.States()), make([]column, l.States())
	s.chains = []*chain{{end: s.n, from: s.n}}
	for i := s.n; i >= 0; i-- {
		for _, q := range b.at[i] {
			cur[q] = column{}
			if i == s.n {
				if l.d.accept[q] {
					cur[q].words = []uint64{1}
					cur[q].node = b.addNode(sliceNode{})
				}
				continue
			}
			if err := b.node(&cur[q], q, i, after); err != nil {
				return err
			}
		}
		if i > 0 {
			cur, after = after, cur
		}
	}
	root := cur[0]
	if len(root.words) == 0 {
		return fault.New(fault.Config, "pattern %q has no word of %d bytes", l.pattern, s.n)
	}
	// Nodes were made from the end, so the start is last. Move it to the front.
	// No run leads to it.
	last := int32(len(s.nodes) - 1)
	s.nodes[0], s.nodes[last] = s.nodes[last], s.nodes[0]
	for k := range s.runs {
		if s.runs[k].node == 0 {
			s.runs[k].node = last
		}
	}
	s.count = root.words
	s.bytes = max(0, s.CapacityBits()/8)
	s.limbs = len(s.count) + 2
	s.pool.New = func() any {
		buf := make([]uint64, 2*s.limbs)
		return &buf
	}
	for _, ch := range s.chains {
		ch.finish()
	}
	return nil
}

// addNode appends a node and returns its index.
func (b *sliceBuilder) addNode(n sliceNode) int32 {
	b.s.nodes = append(b.s.nodes, n)
	return int32(len(b.s.nodes) - 1)
}

// node makes the node of state q at position i, if a word can be completed from
// it. after holds the columns of the next position.
func (b *sliceBuilder) node(col *column, q int32, i int, after []column) error {
	l := b.s.lang
	var symbols []byte
	var runs []run
	var target []int32
	for _, sym := range l.order {
		t := l.flat[int(q)<<8|int(sym)]
		if t == dead || len(after[t].words) == 0 {
			continue
		}
		if n := len(runs); n > 0 && target[n-1] == t {
			runs[n-1].size++
		} else {
			runs = append(runs, run{node: after[t].node, start: uint16(len(symbols)), size: 1})
			target = append(target, t)
		}
		symbols = append(symbols, sym)
	}
	if len(runs) == 0 {
		return nil
	}
	size := 0
	for _, t := range target {
		size = max(size, len(after[t].words))
	}
	words := make([]uint64, size+1)
	for k, t := range target {
		addMul(words, after[t].words, uint64(runs[k].size))
	}
	if b.work += size * len(runs); b.work > maxSliceWork {
		return b.errTooLarge()
	}
	col.words = trim(words)
	alpha, ok := l.alphabet(symbols)
	if !ok {
		return b.errTooLarge()
	}
	n := sliceNode{alpha: alpha, chain: -1}
	if len(runs) == 1 {
		n.chain = b.extend(b.s.nodes[runs[0].node].chain, i, n.alpha)
	}
	if n.chain < 0 {
		n.first = int32(len(b.s.runs))
		for k, t := range target {
			if after[t].stored == nil {
				after[t].stored = append([]uint64(nil), after[t].words...)
				if b.s.stored += len(after[t].stored); b.s.stored > maxSliceLimbs {
					return b.errTooLarge()
				}
			}
			runs[k].divideBy(after[t].stored, bitLen(col.words))
		}
		if len(b.s.runs)+len(runs) > maxSliceRuns {
			return b.errTooLarge()
		}
		b.s.runs = append(b.s.runs, runs...)
		n.last = int32(len(b.s.runs))
	}
	col.node = b.addNode(n)
	return nil
}

// divideBy prepares a run to divide numbers of up to n bits by words.
func (r *run) divideBy(words []uint64, n int) {
	r.words = words
	size := bitLen(words)
	if size+9 <= 64 {
		r.at = -1
		r.wide = n > 64
		return
	}
	r.at = size - 53
	r.inv = 1 / float64(int64(window(words, r.at)))
	r.wide = n > r.at+62
}

// extend puts position i with its alphabet before chain c, which covers the
// positions after it, and returns the resulting chain or -1.
func (b *sliceBuilder) extend(c int32, i int, a *alphabet) int32 {
	if c < 0 {
		return -1
	}
	ch := b.s.chains[c]
	have := len(ch.alpha)
	need := b.s.n - i - 1 // positions after i
	if have > need {
		if ch.alpha[need] == a {
			return c
		}
		// Another state at this position has already extended the chain, so make
		// a copy.
		if b.chained += need; b.chained > maxChainFactor*(b.s.n+16) {
			return -1
		}
		ch = &chain{end: b.s.n, alpha: append([]*alphabet(nil), ch.alpha[:need]...)}
		c = int32(len(b.s.chains))
		b.s.chains = append(b.s.chains, ch)
	}
	ch.alpha = append(ch.alpha, a)
	ch.from = i
	b.chained++
	return c
}
