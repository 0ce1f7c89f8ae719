package lang

import (
	"math/bits"

	"github.com/chivenet/chive/internal/fault"
)

// nfa is the position automaton of a pattern (Glushkov): one state for each
// set in the pattern, after repeats are unrolled, and no empty moves.
type nfa struct {
	limit    int
	sets     []byteSet
	follow   []bitset // follow[i]: positions that may come after i
	first    bitset
	last     bitset
	nullable bool
}

// bitset is a set of positions, of any length; absent words are zero.
type bitset []uint64

func (b *bitset) add(i int) {
	for len(*b) <= i>>6 {
		*b = append(*b, 0)
	}
	(*b)[i>>6] |= 1 << (i & 63)
}

func (b *bitset) union(o bitset) {
	for len(*b) < len(o) {
		*b = append(*b, 0)
	}
	for i, w := range o {
		(*b)[i] |= w
	}
}

// each calls f for every member, in ascending order.
func (b bitset) each(f func(i int)) {
	for w, word := range b {
		for ; word != 0; word &= word - 1 {
			f(w<<6 + bits.TrailingZeros64(word))
		}
	}
}

func (b bitset) clone() bitset { return append(bitset(nil), b...) }

// span holds the positions of a part of a pattern that connect to its neighbours.
// A part without positions has nil sets and is nullable.
type span struct {
	nullable    bool
	first, last bitset
}

// newNFA builds the position automaton of a syntax tree, with at most limit
// positions.
func newNFA(root *node, limit int) (*nfa, error) {
	m := &nfa{limit: limit}
	s, err := m.build(root)
	if err != nil {
		return nil, err
	}
	m.first, m.last, m.nullable = s.first, s.last, s.nullable
	return m, nil
}

// build adds the positions of n and connects them to one another.
func (m *nfa) build(n *node) (span, error) {
	switch n.kind {
	case kindSet:
		i := len(m.sets)
		if i >= m.limit {
			return span{}, fault.New(fault.Config, "the pattern has more than %d positions after its repeats are unrolled (byte %d): use smaller counts", m.limit, n.pos)
		}
		m.sets = append(m.sets, n.set)
		m.follow = append(m.follow, nil)
		var s span
		s.first.add(i)
		s.last.add(i)
		return s, nil
	case kindAlt:
		var s span
		for _, sub := range n.sub {
			t, err := m.build(sub)
			if err != nil {
				return span{}, err
			}
			s.nullable = s.nullable || t.nullable
			s.first.union(t.first)
			s.last.union(t.last)
		}
		return s, nil
	case kindConcat:
		s := span{nullable: true}
		for _, sub := range n.sub {
			t, err := m.build(sub)
			if err != nil {
				return span{}, err
			}
			if t.first != nil {
				s = m.join(s, t)
			}
		}
		return s, nil
	case kindRepeat:
		return m.repeat(n)
	}
	return span{nullable: true}, nil
}

// connect lets every position of to follow every position of from.
func (m *nfa) connect(from, to bitset) {
	from.each(func(i int) { m.follow[i].union(to) })
}

// join is the concatenation of two spans.
func (m *nfa) join(a, b span) span {
	m.connect(a.last, b.first)
	s := span{nullable: a.nullable && b.nullable, first: a.first.clone(), last: b.last.clone()}
	if a.nullable {
		s.first.union(b.first)
	}
	if b.nullable {
		s.last.union(a.last)
	}
	return s
}

// repeat unrolls x{min,max}: min copies, then optional copies, or one copy with a
// star.
func (m *nfa) repeat(n *node) (span, error) {
	s := span{nullable: true}
	total := max(n.min, n.max)
	if n.max < 0 && total == 0 {
		total = 1
	}
	for i := range total {
		t, err := m.build(n.sub[0])
		if err != nil {
			return span{}, err
		}
		if t.first == nil {
			// The part is only the empty word, as in x{0}. Such parts may be
			// nested; their counts would multiply, and they have no positions that
			// a limit could bound.
			break
		}
		if n.max < 0 && i == total-1 {
			m.connect(t.last, t.first)
		}
		if i >= n.min {
			t.nullable = true
		}
		s = m.join(s, t)
	}
	return s, nil
}
