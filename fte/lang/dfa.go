package lang

import (
	"encoding/binary"

	"github.com/chivenet/chive/internal/fault"
)

// dead is the state from which no word can be reached.
const dead = -1

// dfa is a deterministic automaton over classes of bytes that behave alike. State
// 0 is the start. An empty language has no states.
type dfa struct {
	class   [256]uint8 // byte to class
	classes int
	next    [][]int32 // next[state][class], or dead
	accept  []bool
}

// newDFA makes the subset automaton of m, with at most limit states.
func newDFA(m *nfa, limit int) (*dfa, error) {
	d := &dfa{}
	sample := d.partition(m.sets)
	// byClass[c] holds the positions that read class c.
	byClass := make([]bitset, d.classes)
	for c := range byClass {
		for i, s := range m.sets {
			if s.has(sample[c]) {
				byClass[c].add(i)
			}
		}
	}
	index := map[string]int32{}
	var subsets []bitset
	var key []byte
	// intern returns the state of a subset, which the caller may change
	// afterwards.
	intern := func(s bitset, accept bool) (int32, error) {
		for len(s) > 0 && s[len(s)-1] == 0 {
			s = s[:len(s)-1]
		}
		key = key[:0]
		for _, w := range s {
			key = binary.LittleEndian.AppendUint64(key, w)
		}
		if len(subsets) == 0 {
			key = append(key, 's') // the start has read nothing, and is not a subset
		}
		if i, ok := index[string(key)]; ok {
			return i, nil
		}
		if len(subsets) >= limit {
			return 0, fault.New(fault.Config, "the automaton of the pattern has more than %d states", limit)
		}
		i := int32(len(subsets))
		index[string(key)] = i
		subsets = append(subsets, s.clone())
		d.accept = append(d.accept, accept)
		return i, nil
	}
	if _, err := intern(nil, m.nullable); err != nil {
		return nil, err
	}
	var t bitset // reused in each step
	for q := 0; q < len(subsets); q++ {
		after := m.first
		if q > 0 {
			after = nil
			subsets[q].each(func(i int) { after.union(m.follow[i]) })
		}
		row := make([]int32, d.classes)
		for c := range row {
			row[c] = dead
			t = t[:0]
			var some, last uint64
			for w := range min(len(after), len(byClass[c])) {
				hit := after[w] & byClass[c][w]
				t = append(t, hit)
				some |= hit
				if w < len(m.last) {
					last |= hit & m.last[w]
				}
			}
			if some == 0 {
				continue
			}
			var err error
			if row[c], err = intern(t, last != 0); err != nil {
				return nil, err
			}
		}
		d.next = append(d.next, row)
	}
	return d, nil
}

// partition fills d.class: bytes in exactly the same sets share a class, and
// classes are numbered in order of their smallest byte. It returns one byte of
// each class.
func (d *dfa) partition(sets []byteSet) []byte {
	d.classes = 1
	for _, s := range sets {
		var to [256][2]int // old class, and whether in s: new class + 1
		n := 0
		for b := range 256 {
			in := 0
			if s.has(byte(b)) {
				in = 1
			}
			t := &to[d.class[b]][in]
			if *t == 0 {
				n++
				*t = n
			}
			d.class[b] = uint8(*t - 1)
		}
		d.classes = n
	}
	sample := make([]byte, d.classes)
	for b := 255; b >= 0; b-- {
		sample[d.class[b]] = byte(b)
	}
	return sample
}
