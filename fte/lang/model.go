package lang

import (
	"math/bits"
	"sync"
	"unsafe"

	"github.com/chivenet/chive/internal/fault"
)

// The streaming coder never stops walking through the automaton, so it uses only
// states from which a walk meets choices again and again. In its model the
// probability of a symbol is the share of the long walks that begin with it, so
// the text looks like the beginning of a random long word of the language. All
// computation uses integers, because both ends must compute the same model on any
// machine.

const (
	// horizon is the length of the walks that the model counts.
	horizon = 256
	// quantum is the scale of probabilities: they are multiples of 1/2^quantum.
	quantum = 16
	// A scaled probability shifted right by guideShift is the index into a guide.
	guideShift = 6
	// maxGroup bounds the alternatives that one step of a radix coder codes. A
	// range has 56 bits or more, so the remainder that a step cannot divide evenly
	// is at most 2^-26 of it.
	maxGroup = 1 << 30
)

// modelOnce builds a language's model on first use.
type modelOnce struct {
	once sync.Once
	m    *model
	err  error
}

// A model holds the tables with which the streaming coder codes a language.
type model struct {
	lang   *Language
	states []modelState
	finish []int        // length of the shortest way to accept, by state
	pairs  []*pairTable // by state; nil if there is no table
	steps  []mixedStep  // by state<<8 | symbol
}

// A modelState says how symbols are coded in one state.
type modelState struct {
	kind   stateKind
	forced uint8 // kindForced: the only symbol
	to     int32 // kindForced: its state; kindEnter: the other state
	// radix is the alphabet of a state from which all symbols lead to one state.
	radix *alphabet
	group int    // symbols coded in one step of kindRadix
	total uint64 // radix.size^group
	inv   uint64 // floor(2^64/total)
	sym   []symbol
	guide *[1 << (quantum - guideShift)]uint8 // by scaled probability: a symbol at or before the right one
	index [256]uint16                         // of a byte in sym, or noSymbol
}

// stateKind says how the symbols of a state are coded.
type stateKind uint8

const (
	kindNone   stateKind = iota // streams never come here
	kindForced                  // one symbol, which carries no bits
	kindEnter                   // the symbols of another state, all to that state
	kindBits                    // a power of two of symbols, all back to this state
	kindRadix                   // another number of symbols, all back to this state
	kindMixed                   // anything else, by probabilities
)

// A symbol is one transition of a state of kindMixed.
type symbol struct {
	cum   uint32 // sum of the weights of the symbols before it
	width uint32 // its probability * 2^quantum, at least 1
	inv   uint64 // ceil(2^64/width), or 0 for a width of 1
	to    int32
	b     byte
}

// streamModel returns the language's model.
func (l *Language) streamModel() (*model, error) {
	l.model.once.Do(func() {
		if l.model.m, l.model.err = newModel(l); l.model.err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.modelBytes = l.model.m.bytes()
		}
	})
	return l.model.m, l.model.err
}

// bytes returns the size of the model's tables, without the alphabets.
func (m *model) bytes() int {
	n := len(m.states)*int(unsafe.Sizeof(modelState{})) + len(m.steps)*int(unsafe.Sizeof(mixedStep{})) + 16*len(m.states)
	for i := range m.states {
		if st := &m.states[i]; st.guide != nil {
			n += len(st.guide) + len(st.sym)*int(unsafe.Sizeof(symbol{}))
		}
	}
	for _, t := range m.pairs {
		if t != nil {
			n += int(unsafe.Sizeof(pairTable{}))
		}
	}
	return n
}

// newModel computes a model.
func newModel(l *Language) (*model, error) {
	rich := l.rich()
	if !rich[0] {
		return nil, fault.New(fault.Config, "pattern %q cannot carry a stream: its words do not have choices without end", l.pattern)
	}
	weight := l.walks(rich)
	m := &model{lang: l, states: make([]modelState, l.States()), finish: l.finishLen()}
	for q := range m.states {
		if rich[q] && !m.state(int32(q), rich, weight) {
			return nil, fault.New(fault.Resource, "the tables for a stream of pattern %q are too large", l.pattern)
		}
	}
	// The first symbol of x+ is coded like the others, with the state that it
	// leads to, if all symbols of both states lead to that state.
	for q := range m.states {
		st := &m.states[q]
		if st.kind != kindMixed {
			continue
		}
		t := &m.states[st.sym[0].to]
		same := t.radix != nil && len(st.sym) == t.radix.size
		for i, s := range st.sym {
			same = same && s.to == st.sym[0].to && s.b == t.radix.symbols[i]
		}
		if same {
			*st = modelState{kind: kindEnter, to: st.sym[0].to}
		}
	}
	m.addPairs()
	m.addSteps()
	return m, nil
}

// state computes m.states[q]. ok is false if the tables are too large.
func (m *model) state(q int32, rich []bool, weight []uint64) (ok bool) {
	l, st := m.lang, &m.states[q]
	var symbols []byte
	self := true
	for _, b := range l.order {
		if t := l.flat[int(q)<<8|int(b)]; t != dead && rich[t] {
			symbols = append(symbols, b)
			self = self && t == q
		}
	}
	switch {
	case len(symbols) == 1:
		st.kind, st.forced = kindForced, symbols[0]
		st.to = l.flat[int(q)<<8|int(symbols[0])]
		return true
	case self:
		if st.radix, ok = l.alphabet(symbols); !ok {
			return false
		}
		if st.kind = kindRadix; st.radix.log2 >= 0 {
			st.kind = kindBits
		}
		for st.total = 1; st.total*uint64(st.radix.size) <= maxGroup; st.group++ {
			st.total *= uint64(st.radix.size)
		}
		st.inv = ^uint64(0) / st.total
		return true
	}
	st.kind = kindMixed
	share := make([]uint64, len(symbols))
	var sum uint64
	for i, b := range symbols {
		share[i] = max(1, weight[l.flat[int(q)<<8|int(b)]])
		sum += share[i]
	}
	st.sym = make([]symbol, len(symbols))
	const scale = 1 << quantum
	left := uint64(scale)
	for i := range share {
		hi, lo := bits.Mul64(share[i], scale)
		w, _ := bits.Div64(hi, lo, sum)
		share[i] = max(1, w)
		left -= share[i] // may wrap; the loop below corrects it
	}
	// The rounding error is spread over the symbols with the largest weights, one
	// unit for each in turn.
	for int64(left) != 0 {
		var most uint64
		for _, w := range share {
			most = max(most, w)
		}
		for i := range share {
			if share[i] < most || left == 0 {
				continue
			}
			if int64(left) > 0 {
				share[i]++
				left--
			} else {
				share[i]--
				left++
			}
		}
	}
	for i := range st.index {
		st.index[i] = noSymbol
	}
	st.guide = new([1 << (quantum - guideShift)]uint8)
	cum := uint32(0)
	for i, b := range symbols {
		s := symbol{cum: cum, width: uint32(share[i]), to: l.flat[int(q)<<8|int(b)], b: b}
		if s.width > 1 {
			s.inv = ^uint64(0)/share[i] + 1
		}
		st.sym[i] = s
		st.index[b] = uint16(i)
		for g := cum; g < cum+s.width; g++ {
			if g&(1<<guideShift-1) == 0 {
				st.guide[g>>guideShift] = uint8(i)
			}
		}
		cum += s.width
	}
	return true
}

// rich reports, for each state, whether it can reach a loop that has a choice.
// From such a state the number of words grows exponentially with their length.
func (l *Language) rich() []bool {
	n := l.States()
	loop := l.loops()
	rich := make([]bool, n)
	for q := range n {
		inside := 0
		for b := range 256 {
			if t := l.flat[q<<8|b]; t != dead && loop[t] == loop[q] && loop[q] >= 0 {
				inside++
			}
		}
		rich[q] = inside >= 2
	}
	for changed := true; changed; {
		changed = false
		for q := n - 1; q >= 0; q-- {
			for _, t := range l.d.next[q] {
				if t != dead && rich[t] && !rich[q] {
					rich[q], changed = true, true
				}
			}
		}
	}
	return rich
}

// loops numbers the strongly connected components that have a cycle, and gives
// -1 to states that are in none (Tarjan's algorithm, without recursion).
func (l *Language) loops() []int {
	n := l.States()
	number, low := make([]int, n), make([]int, n)
	comp := make([]int, n)
	onStack := make([]bool, n)
	type frame struct{ q, class int }
	var path []frame
	var stack []int
	count := 0
	visit := func(q int) {
		count++
		number[q], low[q] = count, count
		stack = append(stack, q)
		onStack[q] = true
		path = append(path, frame{q: q})
	}
	visit(0) // every state is reachable from the start
	for len(path) > 0 {
		f := &path[len(path)-1]
		if f.class < l.d.classes {
			t := int(l.d.next[f.q][f.class])
			f.class++
			switch {
			case t == dead:
			case number[t] == 0:
				visit(t)
			case onStack[t]:
				low[f.q] = min(low[f.q], number[t])
			}
			continue
		}
		q := f.q
		path = path[:len(path)-1]
		if len(path) > 0 {
			p := path[len(path)-1].q
			low[p] = min(low[p], low[q])
		}
		if low[q] != number[q] {
			continue
		}
		at := len(stack) - 1
		for stack[at] != q {
			at--
		}
		id := q
		if at == len(stack)-1 && !l.loopsAlone(q) {
			id = -1
		}
		for _, t := range stack[at:] {
			comp[t] = id
			onStack[t] = false
		}
		stack = stack[:at]
	}
	return comp
}

// loopsAlone reports whether a state leads to itself.
func (l *Language) loopsAlone(q int) bool {
	for _, t := range l.d.next[q] {
		if int(t) == q {
			return true
		}
	}
	return false
}

// walks returns for each rich state a number that is proportional to the number of
// its walks of length horizon through rich states.
func (l *Language) walks(rich []bool) []uint64 {
	n := l.States()
	v, next := make([]uint64, n), make([]uint64, n)
	classSize := make([]uint64, l.d.classes)
	for _, c := range l.d.class {
		classSize[c]++
	}
	for q := range v {
		if rich[q] {
			v[q] = 1 << 32
		}
	}
	for range horizon {
		var most uint64
		for q := range next {
			next[q] = 0
			if !rich[q] {
				continue
			}
			for c, t := range l.d.next[q] {
				if t != dead {
					next[q] += classSize[c] * v[t]
				}
			}
			most = max(most, next[q])
		}
		// Keep numbers below 2^48, so that a sum of 256 fits.
		shift := max(0, bits.Len64(most)-48)
		for q := range next {
			next[q] >>= uint(shift)
		}
		v, next = next, v
	}
	return v
}
