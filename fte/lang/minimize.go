package lang

// minimize returns the minimal automaton of d's language, without dead states
// (Hopcroft's partition refinement). Its states are numbered in the order of a
// breadth-first walk that takes bytes in ascending order.
func (d *dfa) minimize() *dfa {
	block := d.refine()
	n := len(d.next)
	alive := d.alive()
	out := &dfa{class: d.class, classes: d.classes}
	if n == 0 || !alive[0] {
		return out
	}
	number := map[int32]int32{block[0]: 0}
	walk := []int32{0} // one state of d for each new state
	for i := 0; i < len(walk); i++ {
		q := walk[i]
		row := make([]int32, d.classes)
		for c, t := range d.next[q] {
			row[c] = dead
			if t == dead || !alive[t] {
				continue
			}
			k, seen := number[block[t]]
			if !seen {
				k = int32(len(walk))
				number[block[t]] = k
				walk = append(walk, t)
			}
			row[c] = k
		}
		out.next = append(out.next, row)
		out.accept = append(out.accept, d.accept[q])
	}
	return out
}

// alive reports for each state whether some word is accepted from it.
func (d *dfa) alive() []bool {
	n := len(d.next)
	before := make([][]int32, n)
	var todo []int32
	alive := make([]bool, n)
	for q, row := range d.next {
		for _, t := range row {
			if t != dead {
				before[t] = append(before[t], int32(q))
			}
		}
		if d.accept[q] {
			alive[q] = true
			todo = append(todo, int32(q))
		}
	}
	for len(todo) > 0 {
		t := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, q := range before[t] {
			if !alive[q] {
				alive[q] = true
				todo = append(todo, q)
			}
		}
	}
	return alive
}

// refine returns the block of equivalent states that each state is in. The
// dead state takes part as state n, so that the automaton is complete.
func (d *dfa) refine() []int32 {
	n := len(d.next)
	// before[c] lists the predecessors by class c, grouped by target.
	before := make([][]int32, d.classes)
	start := make([][]int32, d.classes)
	for c := range d.classes {
		count := make([]int32, n+3)
		to := func(q int) int {
			if q == n || d.next[q][c] == dead {
				return n
			}
			return int(d.next[q][c])
		}
		for q := range n + 1 {
			count[to(q)+2]++
		}
		for t := 2; t < len(count); t++ {
			count[t] += count[t-1]
		}
		list := make([]int32, n+1)
		for q := range n + 1 {
			t := to(q)
			list[count[t+1]] = int32(q)
			count[t+1]++
		}
		before[c], start[c] = list, count
	}
	// The states of block b are order[from[b]:to[b]].
	order := make([]int32, 0, n+1)
	at := make([]int32, n+1) // position of a state in order
	block := make([]int32, n+1)
	for _, want := range []bool{true, false} {
		for q := range n + 1 {
			if (q < n && d.accept[q]) == want {
				at[q] = int32(len(order))
				order = append(order, int32(q))
			}
		}
	}
	accepting := int32(0)
	for _, a := range d.accept {
		if a {
			accepting++
		}
	}
	from, to := []int32{0}, []int32{accepting}
	if accepting == 0 {
		to[0] = int32(n + 1)
	} else {
		from, to = append(from, accepting), append(to, int32(n+1))
		for _, q := range order[accepting:] {
			block[q] = 1
		}
	}
	type splitter struct{ block, class int32 }
	var work []splitter
	for b := range from {
		for c := range d.classes {
			work = append(work, splitter{int32(b), int32(c)})
		}
	}
	marked := make([]int32, len(from)) // marked states stand first in a block
	for len(work) > 0 {
		w := work[len(work)-1]
		work = work[:len(work)-1]
		var touched []int32
		var hits []int32
		for _, t := range order[from[w.block]:to[w.block]] {
			hits = append(hits, before[w.class][start[w.class][t]:start[w.class][t+1]]...)
		}
		for _, q := range hits {
			b := block[q]
			m := from[b] + marked[b]
			if at[q] < m {
				continue // marked already
			}
			if marked[b] == 0 {
				touched = append(touched, b)
			}
			other := order[m]
			order[m], order[at[q]] = q, other
			at[other], at[q] = at[q], m
			marked[b]++
		}
		for _, b := range touched {
			k := marked[b]
			marked[b] = 0
			if from[b]+k == to[b] {
				continue
			}
			// Split off the smaller part as a new block. Hopcroft's time bound
			// requires that the smaller part splits others later.
			nb := int32(len(from))
			if lo, mid, hi := from[b], from[b]+k, to[b]; mid-lo <= hi-mid {
				from, to = append(from, lo), append(to, mid)
				from[b] = mid
			} else {
				from, to = append(from, mid), append(to, hi)
				to[b] = mid
			}
			marked = append(marked, 0)
			for _, q := range order[from[nb]:to[nb]] {
				block[q] = nb
			}
			for c := range d.classes {
				work = append(work, splitter{nb, int32(c)})
			}
		}
	}
	return block
}
