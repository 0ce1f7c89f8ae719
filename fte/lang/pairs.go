package lang

// Two symbols at a time are found faster in a table of pairs than one after
// the other: the second search does not wait for the first.

const (
	// maxPairs bounds the pairs of one state, and maxAllPairs those of a
	// language; beyond, symbols are found one by one, with the same result.
	maxPairs    = 4096
	maxAllPairs = 1 << 15
	// pairGuideShift leaves the bits that index a guide to pairs.
	pairGuideShift = 2*quantum - 12
)

// A pairEntry is two symbols in a row, or one if what follows it is no choice
// of kindMixed.
type pairEntry struct {
	cum   uint32 // of its part of the range, out of 2^(2*quantum)
	width uint32
	to    int32
	n     uint8 // symbols
	b     [2]byte
}

// pairTable finds the pair that a number below 2^(2*quantum) falls on.
type pairTable struct {
	entries []pairEntry
	guide   [1 << 12]uint16 // by the number's highest bits: a pair at or before it
}

// find returns the pair that s falls on.
func (t *pairTable) find(s uint64) *pairEntry {
	k := int(t.guide[s>>pairGuideShift])
	for s-uint64(t.entries[k].cum) >= uint64(t.entries[k].width) {
		k++
	}
	return &t.entries[k]
}

// addPairs makes the tables of pairs, as far as the bounds allow.
func (m *model) addPairs() {
	left := maxAllPairs
	for q := range m.states {
		st := &m.states[q]
		if st.kind != kindMixed {
			continue
		}
		size := 0
		for i := range st.sym {
			size += max(1, len(m.states[st.sym[i].to].sym))
		}
		if size > maxPairs || size > left {
			continue
		}
		left -= size
		t := &pairTable{entries: make([]pairEntry, 0, size)}
		for i := range st.sym {
			a := &st.sym[i]
			next := &m.states[a.to]
			if next.kind != kindMixed {
				t.add(pairEntry{cum: a.cum << quantum, width: a.width << quantum, to: a.to, n: 1, b: [2]byte{a.b}})
				continue
			}
			for k := range next.sym {
				b := &next.sym[k]
				t.add(pairEntry{cum: a.cum<<quantum + a.width*b.cum, width: a.width * b.width, to: b.to, n: 2, b: [2]byte{a.b, b.b}})
			}
		}
		st.pairs = t
	}
}

// add appends an entry, whose part of the range follows the last one's.
func (t *pairTable) add(e pairEntry) {
	const step = 1 << pairGuideShift
	first := (uint64(e.cum) + step - 1) / step
	for g := first; g*step < uint64(e.cum)+uint64(e.width); g++ {
		t.guide[g] = uint16(len(t.entries))
	}
	t.entries = append(t.entries, e)
}
