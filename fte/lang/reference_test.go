package lang

import (
	"bytes"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// A second decoder of strict mode, written after docs/spec/fte.md and not after
// the first, with big integers and no thought of speed.

type refState struct {
	kind  string // forced, radix, mixed, or "" if the state is not rich
	bytes []byte
	to    []int
	u, c  []uint64
}

// refModel follows "The coder of strict mode".
func refModel(l *Language) []refState {
	n := l.States()
	next := func(q, b int) int { return int(l.flat[q<<8|b]) }
	reach := make([][]bool, n)
	for q := range n {
		reach[q] = make([]bool, n)
		for b := range 256 {
			if t := next(q, b); t >= 0 {
				reach[q][t] = true
			}
		}
	}
	for k := range n {
		for i := range n {
			for j := range n {
				reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
			}
		}
	}
	choice := make([]bool, n)
	for q := range n {
		stay := 0
		for b := range 256 {
			if t := next(q, b); t >= 0 && reach[t][q] {
				stay++
			}
		}
		choice[q] = stay >= 2
	}
	rich, v := make([]bool, n), make([]uint64, n)
	for q := range n {
		rich[q] = choice[q]
		for t := range n {
			rich[q] = rich[q] || reach[q][t] && choice[t]
		}
		if rich[q] {
			v[q] = 1 << 32
		}
	}
	for range 256 {
		w, most := make([]uint64, n), uint64(0)
		for q := range n {
			for b := range 256 {
				if t := next(q, b); t >= 0 && rich[q] {
					w[q] += v[t]
				}
			}
			most = max(most, w[q])
		}
		for most >= 1<<48 {
			most >>= 1
			for q := range w {
				w[q] >>= 1
			}
		}
		v = w
	}
	all := make([]refState, n)
	for q := range all {
		s := &all[q]
		if !rich[q] {
			continue
		}
		back, sum := true, new(big.Int)
		for b := range 256 {
			if t := next(q, b); t >= 0 && rich[t] {
				s.bytes, s.to = append(s.bytes, byte(b)), append(s.to, t)
				back = back && t == q
				sum.Add(sum, new(big.Int).SetUint64(max(1, v[t])))
			}
		}
		switch {
		case len(s.bytes) == 1:
			s.kind = "forced"
			continue
		case back:
			s.kind = "radix"
			continue
		}
		s.kind = "mixed"
		lack := 1 << 16
		for _, t := range s.to {
			x := new(big.Int).SetUint64(max(1, v[t]))
			x.Div(x.Lsh(x, 16), sum)
			s.u = append(s.u, max(1, x.Uint64()))
			lack -= int(s.u[len(s.u)-1])
		}
		for lack != 0 {
			var largest uint64
			for _, u := range s.u {
				largest = max(largest, u)
			}
			for i := range s.u {
				if s.u[i] == largest && lack > 0 {
					s.u[i]++
					lack--
				} else if s.u[i] == largest && lack < 0 {
					s.u[i]--
					lack++
				}
			}
		}
		c := uint64(0)
		for _, u := range s.u {
			s.c = append(s.c, c)
			c += u
		}
	}
	return all
}

// enter returns the state that a state is, if it is one of kind enter.
func enter(m []refState, q int) int {
	s := &m[q]
	if s.kind != "mixed" {
		return q
	}
	t := s.to[0]
	for _, x := range s.to {
		if x != t {
			return q
		}
	}
	if m[t].kind == "radix" && bytes.Equal(m[t].bytes, s.bytes) {
		return t
	}
	return q
}

type refLane struct {
	n, pos int
	w      uint64
	low    *big.Int // in units of 2^-8(n+16)
	dst    []byte
}

func (l *refLane) unit() uint { return uint(8 * (l.n + 16 - l.pos)) }

// done reports whether all of the interval begins with the same bytes, and
// then stores them.
func (l *refLane) done() bool {
	if l.pos < l.n || l.pos > l.n+8 {
		return false
	}
	end := new(big.Int).SetUint64(l.w)
	end.Lsh(end, l.unit()).Add(end, l.low).Sub(end, big.NewInt(1))
	first := new(big.Int).Rsh(l.low, 128)
	if first.Cmp(end.Rsh(end, 128)) != 0 {
		return false
	}
	first.FillBytes(l.dst)
	return true
}

func (l *refLane) step(r, offset, size, all uint64, group bool) (done bool) {
	x := new(big.Int).SetUint64(r * offset)
	l.low.Add(l.low, x.Lsh(x, l.unit()))
	if offset+size == all {
		l.w -= r * offset
	} else {
		l.w = r * size
	}
	if !group && l.done() {
		return true
	}
	if !group && l.pos+16 > l.n && l.w >= 1<<32 {
		return false
	}
	for l.w < 1<<56 {
		l.w <<= 8
		l.pos++
	}
	return !group && l.done()
}

// refDecode decodes a chunk of n bytes from symbols, in state q. It returns
// the rest of the symbols and the state.
func refDecode(t *testing.T, m []refState, q int, symbols []byte, n int) (dst, rest []byte, _ int) {
	at := 0
	// settle takes forced symbols; choose takes one that is chosen.
	settle := func() *refState {
		for m[q].kind == "forced" {
			if symbols[at] != m[q].bytes[0] {
				t.Fatalf("a forced symbol is %q", symbols[at])
			}
			q = m[q].to[0]
			at++
		}
		q = enter(m, q)
		return &m[q]
	}
	choose := func() int {
		i := bytes.IndexByte(m[q].bytes, symbols[at])
		if i < 0 {
			t.Fatalf("%q can't come in state %d", symbols[at], q)
		}
		q = m[q].to[i]
		at++
		return i
	}
	dst = make([]byte, n)
	if s := settle(); s.kind == "radix" && bits.OnesCount(uint(len(s.bytes))) == 1 {
		k := bits.TrailingZeros(uint(len(s.bytes)))
		x := new(big.Int)
		count := (8*n + k - 1) / k
		for range count {
			x.Lsh(x, uint(k)).Add(x, big.NewInt(int64(choose())))
		}
		x.Rsh(x, uint(count*k-8*n)).FillBytes(dst)
		return dst, symbols[at:], q
	}
	count := 1
	if n >= 1024 {
		count = 4
	}
	var lanes []*refLane
	for i := range count {
		part := dst[i*n/count : (i+1)*n/count]
		lanes = append(lanes, &refLane{n: len(part), pos: 7, w: 1 << 56, low: new(big.Int), dst: part})
	}
	symbol := func(l *refLane) bool {
		s := settle()
		i := choose()
		if s.kind == "radix" {
			n := uint64(len(s.bytes))
			return l.step(l.w/n, uint64(i), 1, n, false)
		}
		return l.step(l.w>>16, s.c[i], s.u[i], 1<<16, false)
	}
	fast := func(l *refLane) bool { return l.pos >= 8 && l.pos+16 <= l.n }
	group := func(l *refLane) {
		s := settle()
		if s.kind == "radix" {
			all, digits, i := uint64(1), 0, uint64(0)
			for all*uint64(len(s.bytes)) <= 1<<30 {
				all *= uint64(len(s.bytes))
				digits++
			}
			for range digits {
				i = i*uint64(len(s.bytes)) + uint64(choose())
			}
			r, _ := bits.Mul64(l.w, ^uint64(0)/all)
			l.step(r, i, 1, all, true)
			return
		}
		a := choose()
		offset, size := s.c[a]<<16, s.u[a]<<16
		if next := &m[q]; next.kind == "mixed" && enter(m, q) == q {
			b := choose()
			offset, size = offset+s.u[a]*next.c[b], s.u[a]*next.u[b]
		}
		l.step(l.w>>32, offset, size, 1<<32, true)
	}
	if count > 1 {
		for _, l := range lanes {
			for l.pos < 8 {
				symbol(l)
			}
		}
		for fast(lanes[0]) && fast(lanes[1]) && fast(lanes[2]) && fast(lanes[3]) {
			for _, l := range lanes {
				group(l)
			}
		}
	}
	for _, l := range lanes {
		for {
			if fast(l) {
				group(l)
			} else if symbol(l) {
				break
			}
		}
	}
	return dst, symbols[at:], q
}

// TestStreamReference has the second decoder read what the encoder writes.
func TestStreamReference(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for _, pattern := range streamPatterns {
		l, err := Compile(pattern, Options{})
		if err != nil {
			t.Fatal(err)
		}
		enc, err := l.NewEncoder()
		if err != nil {
			continue // [a-z]{3} carries no stream
		}
		m := refModel(l)
		for range 4 {
			var chunks [][]byte
			var word []byte
			for _, n := range []int{1 + r.IntN(30), 1 + r.IntN(1023), manyLanes + r.IntN(1500), 1 + r.IntN(30)} {
				chunk := randomBytes(r, n)
				chunks = append(chunks, chunk)
				word = enc.Append(word, chunk, r.Uint64())
			}
			enc.Finish(nil, 0)
			q := 0
			for i, want := range chunks {
				var got []byte
				if got, word, q = refDecode(t, m, q, word, len(want)); !bytes.Equal(got, want) {
					t.Fatalf("%s: chunk %d of %d bytes differs", pattern, i, len(want))
				}
			}
			if len(word) > 0 {
				t.Fatalf("%s: %d symbols are left", pattern, len(word))
			}
		}
	}
}
