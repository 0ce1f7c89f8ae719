package lang

// A table of pairs finds two symbols faster than two searches, because the
// second search would have to wait for the first.

const (
	// maxPairs bounds the pairs of one table, and maxTables those of a language;
	// above these bounds, symbols are found one by one, with the same result.
	maxPairs  = 1 << pairBits
	maxTables = 16
	// pairBits is the number of highest bits of a number that index a table's
	// guide.
	pairBits  = 12
	pairShift = 2*quantum - pairBits
	pairLow   = 1<<pairShift - 1
)

// A pairTable belongs to one state. It finds the pair of symbols whose part of
// the range contains a number below 2^(2*quantum).
type pairTable struct {
	// guide is indexed by the number's highest bits. The highest pairBits of an
	// entry are the index of the pair that contains the lowest number with these
	// bits. The other bits of the entry are the lowest bits of the last number
	// in that pair.
	guide [1 << pairBits]uint32
	// pairs are in ascending order. After the last pair comes an entry whose cum
	// is 2^(2*quantum), which wraps to 0.
	pairs [maxPairs + 1]pairEntry
	state int32
}

// A pairEntry is two symbols in a row, or one symbol if it leads to a state that
// is not of kindMixed.
type pairEntry struct {
	next *pairTable // the table of the state that the symbols lead to, or nil
	cum  uint32     // start of its part of the range, which ends where the next begins
	b    uint16     // the symbols, the first in the low byte
	n    uint8      // symbols
}

// addPairs makes the tables of pairs, within the bounds.
func (m *model) addPairs() {
	m.pairs = make([]*pairTable, len(m.states))
	left := maxTables
	for q := range m.states {
		st := &m.states[q]
		if st.kind != kindMixed {
			continue
		}
		size := 0
		for i := range st.sym {
			size += max(1, len(m.states[st.sym[i].to].sym))
		}
		if size <= maxPairs && left > 0 {
			m.pairs[q] = &pairTable{state: int32(q)}
			left--
		}
	}
	for _, t := range m.pairs {
		if t != nil {
			m.fill(t)
		}
	}
}

// fill lists the pairs of a table.
func (m *model) fill(t *pairTable) {
	st := &m.states[t.state]
	n := 0
	for i := range st.sym {
		a := &st.sym[i]
		next := &m.states[a.to]
		if next.kind != kindMixed {
			t.pairs[n] = pairEntry{next: m.pairs[a.to], cum: a.cum << quantum, b: uint16(a.b), n: 1}
			n++
			continue
		}
		for k := range next.sym {
			b := &next.sym[k]
			t.pairs[n] = pairEntry{next: m.pairs[b.to], cum: a.cum<<quantum + a.width*b.cum, b: uint16(a.b) | uint16(b.b)<<8, n: 2}
			n++
		}
	}
	k := 0
	for i := range t.guide {
		from := uint32(i) << pairShift
		for k+1 < n && from >= t.pairs[k+1].cum {
			k++
		}
		last := min(t.pairs[k+1].cum-1-from, pairLow)
		t.guide[i] = uint32(k)<<pairShift | last
	}
}

// A mixedStep describes one symbol in a state of kindMixed for the decoder: its
// part of the range 2^quantum, and the state that it leads to. A width of 0
// means that the symbol is not possible.
type mixedStep struct {
	to         int32
	cum, width uint16 // a state has at least two symbols, so neither reaches 2^quantum
}

// addSteps makes the table of steps, by state<<8 | symbol.
func (m *model) addSteps() {
	m.steps = make([]mixedStep, len(m.states)<<8)
	for q := range m.states {
		for _, s := range m.states[q].sym {
			m.steps[q<<8|int(s.b)] = mixedStep{to: s.to, cum: uint16(s.cum), width: uint16(s.width)}
		}
	}
}
