package lang

import (
	"sync"

	"github.com/chivenet/chive/internal/fault"
)

// Order is the order of the symbols of a language, which decides how a
// [Slice] numbers its words.
type Order uint8

const (
	// AscendingBytes orders symbols by value, as fteproxy 0.3 does.
	AscendingBytes Order = iota
	// FirstAppearance orders symbols by their first appearance in the transitions of
	// the minimal automaton, whose states are in breadth-first order, as fteproxy 0.2
	// does.
	FirstAppearance
)

// Options change how a pattern is compiled. The zero value has the defaults.
type Options struct {
	// ClassicEscapes reads the pattern as regex2dfa 0.2.2 does, which fteproxy 0.3.2
	// uses: a backslash in a class is a byte of that class, { and } are ordinary
	// bytes, and an unknown escape means the byte after the backslash.
	ClassicEscapes bool
	// Order is the order of the symbols, by which a slice numbers its words.
	Order Order
	// MaxStates bounds the automaton's states and the positions of the
	// unrolled pattern; 0 is DefaultMaxStates.
	MaxStates int
}

// DefaultMaxStates is the bound if Options.MaxStates is 0.
const DefaultMaxStates = 4096

// A Language is the set of words that a pattern matches as a whole. It is
// immutable, and safe for use by several goroutines.
type Language struct {
	pattern string
	d       *dfa
	flat    []int32 // next state by state<<8 | byte, or dead
	order   []byte  // the symbols, in order
	rank    [256]uint8

	model modelOnce // of the streaming coder

	mu         sync.Mutex
	alphas     map[string]*alphabet // guarded by mu
	alphaBytes int                  // of alphas; guarded by mu
	modelBytes int                  // of the model, once it is made; guarded by mu
}

// Size returns the approximate size of the language's tables in bytes, without those
// of slices. The first NewEncoder or NewDecoder adds the tables of the streaming coder.
func (l *Language) Size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 4*len(l.flat) + 4*l.States()*l.d.classes + l.alphaBytes + l.modelBytes
}

// Compile reads a pattern and builds its minimal automaton.
//
// A pattern describes whole words of bytes; ^ and $ at its ends are allowed and change
// nothing. A pattern consists of
//
//	x            the byte x, of ASCII; other bytes and controls as \xHH
//	.  \C        any byte
//	[abc-e] [^x] one byte of a class, or one outside it
//	\d \w \s     a digit, a letter or digit or _, one of " \t\n\r\f"; \D \W \S the others
//	\n \r \t \f \v \0  controls; before anything else that is no letter or
//	             digit, the backslash makes it a byte that stands for itself
//	xy  x|y      x then y; x or y
//	(x) (?:x)    a group
//	x? x* x+ x{m} x{m,} x{m,n}   repetition, counts up to 1000
//
// Anything else returns a [SyntaxError] with the position. A pattern has at most 4096
// bytes. Errors have kind fault.Config.
func Compile(pattern string, opts Options) (*Language, error) {
	limit := opts.MaxStates
	if limit == 0 {
		limit = DefaultMaxStates
	}
	tree, err := parse(pattern, opts.ClassicEscapes)
	if err != nil {
		return nil, err
	}
	m, err := newNFA(tree, limit)
	if err != nil {
		return nil, err
	}
	d, err := newDFA(m, limit)
	if err != nil {
		return nil, err
	}
	l := &Language{pattern: pattern, d: d.minimize(), alphas: map[string]*alphabet{}}
	if len(l.d.next) == 0 {
		return nil, fault.New(fault.Config, "no word matches pattern %q", pattern)
	}
	l.flat = make([]int32, len(l.d.next)<<8)
	for q, row := range l.d.next {
		for b := range 256 {
			l.flat[q<<8|b] = row[l.d.class[b]]
		}
	}
	l.setOrder(opts.Order)
	return l, nil
}

// setOrder lists the symbols that occur in words.
func (l *Language) setOrder(o Order) {
	var seen byteSet
	for q := range l.d.next {
		for b := range 256 {
			if l.flat[q<<8|b] != dead && !seen.has(byte(b)) {
				seen.add(byte(b))
				l.order = append(l.order, byte(b))
			}
		}
	}
	if o == AscendingBytes {
		l.order = l.order[:0]
		for b := range 256 {
			if seen.has(byte(b)) {
				l.order = append(l.order, byte(b))
			}
		}
	}
	for i, b := range l.order {
		l.rank[b] = uint8(i)
	}
}

// Pattern returns the pattern that the language was compiled from.
func (l *Language) Pattern() string { return l.pattern }

// States returns the number of states of the minimal automaton, without the
// dead state.
func (l *Language) States() int { return len(l.d.next) }

// Symbols returns the bytes that occur in words, in the language's order.
func (l *Language) Symbols() []byte { return append([]byte(nil), l.order...) }

// Match reports whether word is in the language.
func (l *Language) Match(word []byte) bool {
	q := int32(0)
	for _, b := range word {
		if q = l.flat[int(q)<<8|int(b)]; q == dead {
			return false
		}
	}
	return l.d.accept[q]
}

// Prefix returns the length of the longest prefix of b with which a word of the
// language begins: len(b) if b could still become a word, or else the offset of the
// first byte that is impossible.
func (l *Language) Prefix(b []byte) int {
	q := int32(0)
	for i, c := range b {
		if q = l.flat[int(q)<<8|int(c)]; q == dead {
			return i
		}
	}
	return len(b)
}

// MinLen returns the length of the shortest word.
func (l *Language) MinLen() int { return l.finishLen()[0] }

// finishLen returns, for each state, the length of the shortest path to an accepting
// state.
func (l *Language) finishLen() []int {
	n := len(l.d.next)
	dist := make([]int, n)
	for q := range dist {
		dist[q] = n // longer than any shortest path
		if l.d.accept[q] {
			dist[q] = 0
		}
	}
	for changed := true; changed; {
		changed = false
		for q := n - 1; q >= 0; q-- {
			for _, t := range l.d.next[q] {
				if t != dead && dist[t]+1 < dist[q] {
					dist[q], changed = dist[t]+1, true
				}
			}
		}
	}
	return dist
}

// MaxLen returns the length of the longest word, or -1 if there is no longest.
func (l *Language) MaxLen() int {
	const unseen, open = -2, -1
	longest := make([]int, len(l.d.next))
	for q := range longest {
		longest[q] = unseen
	}
	var walk func(q int32) bool
	walk = func(q int32) bool {
		longest[q] = open
		best := 0
		for _, t := range l.d.next[q] {
			if t == dead {
				continue
			}
			// From every state an accepting state can be reached, so a cycle makes
			// words of any length.
			if longest[t] == open || longest[t] == unseen && !walk(t) {
				return false
			}
			best = max(best, longest[t]+1)
		}
		longest[q] = best
		return true
	}
	if !walk(0) {
		return -1
	}
	return longest[0]
}
