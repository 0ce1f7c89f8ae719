package hostile

import (
	"fmt"
	"slices"
	"strings"
)

// Insn is one operation with its arguments. The highest bit of Op joins it to the
// next operation: nothing waits between them, and their cells are sent in one write
// if possible.
type Insn struct{ Op, A, B, C byte }

// Joined is the bit of Insn.Op that joins operations.
const Joined = 0x80

// Program is a fuzz input as operations, four bytes each.
type Program []Insn

const (
	insnLen  = 4
	maxInsns = 64 // further operations are not run
)

// The first operations of every table.
const (
	opEnd  = 0 // A is the kind of object, B its number
	opWait = 1 // A says how long
)

// Parse reads a fuzz input.
func Parse(input []byte) (p Program) {
	for rest := input; len(rest) >= insnLen && len(p) < maxInsns; rest = rest[insnLen:] {
		p = append(p, Insn{rest[0], rest[1], rest[2], rest[3]})
	}
	return p
}

// Bytes returns the fuzz input for p.
func (p Program) Bytes() (out []byte) {
	for _, i := range p {
		out = append(out, i.Op, i.A, i.B, i.C)
	}
	return out
}

// op is one row of a target's table.
type op[W any] struct {
	name string
	do   func(w W, i Insn)
}

// table is a target's operations; an Op counts modulo its length, so that rows
// are only ever appended.
type table[W any] []op[W]

func (t table[W]) of(i Insn) op[W] { return t[int(i.Op&^Joined)%len(t)] }

// only returns the rows with these names, in their order, after the rows with which
// every table begins.
func (t table[W]) only(names ...string) table[W] {
	out := slices.Clone(t[:opWait+1])
	for _, n := range names {
		out = append(out, t[t.Op(n)])
	}
	return out
}

// describe prints a program, for the analysis of a failure.
func (t table[W]) describe(p Program) string {
	var b strings.Builder
	for n, i := range p {
		joined := ""
		if i.Op&Joined != 0 {
			joined = " +"
		}
		fmt.Fprintf(&b, "\n%3d %-14s %02x %02x %02x%s", n, t.of(i).name, i.A, i.B, i.C, joined)
	}
	return b.String()
}

// Op returns the operation of that name; it panics if there is none, because seeds
// use names.
func (t table[W]) Op(name string) byte {
	for n, o := range t {
		if o.name == name {
			return byte(n)
		}
	}
	panic("hostile: no operation " + name)
}
