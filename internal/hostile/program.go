package hostile

import (
	"fmt"
	"slices"
	"strings"
)

// Insn is one operation with its arguments. The highest bit of Op says that it
// is joined to the next: nothing waits between them, and their cells leave in
// one write where that can be.
type Insn struct{ Op, A, B, C byte }

// Joined is the bit of Insn.Op.
const Joined = 0x80

// Program is what a fuzz input says: two edits of four bytes, and then
// operations of four bytes each. The edits change the program before it runs,
// so that one byte of the input can put an end, or a wait, before any operation.
type Program []Insn

const (
	insnLen  = 4
	edits    = 2
	maxInsns = 64 // what is beyond is not run
)

// The first operations of every table.
const (
	opEnd  = 0 // A says of what, B of which
	opWait = 1 // A says how long
)

// The kinds of edits: a byte of kind, the place, and two arguments.
const (
	editNone   = iota
	editEnd    // opEnd before the place
	editWait   // opWait before the place
	editDelete // the operation at the place
	editRepeat // it, as often as the first argument says
	editSwap   // it with the one at the first argument
	editByte   // byte x of it becomes y
	editJoin   // it is joined to the next, or no longer
	editKinds
)

// Parse reads a fuzz input.
func Parse(input []byte) Program {
	n := min(len(input), edits*insnLen)
	head, rest := input[:n], input[n:]
	var p Program
	for ; len(rest) >= insnLen && len(p) < maxInsns; rest = rest[insnLen:] {
		p = append(p, Insn{rest[0], rest[1], rest[2], rest[3]})
	}
	for ; len(head) >= insnLen; head = head[insnLen:] {
		p = p.edit(head[0], head[1], head[2], head[3])
	}
	return p
}

func (p Program) edit(kind, at, x, y byte) Program {
	if len(p) == 0 {
		return p
	}
	i := int(at) % len(p)
	switch kind % editKinds {
	case editEnd:
		return slices.Insert(p, i, Insn{opEnd, x, y, 0})
	case editWait:
		return slices.Insert(p, i, Insn{opWait, x, y, 0})
	case editDelete:
		return slices.Delete(p, i, i+1)
	case editRepeat:
		return slices.Insert(p, i, slices.Repeat([]Insn{p[i]}, int(x)%16)...)
	case editSwap:
		j := int(x) % len(p)
		p[i], p[j] = p[j], p[i]
	case editByte:
		f := []*byte{&p[i].Op, &p[i].A, &p[i].B, &p[i].C}
		*f[x%4] = y
	case editJoin:
		p[i].Op ^= Joined
	}
	return p
}

// Bytes returns the fuzz input that means p, without edits.
func (p Program) Bytes() []byte {
	out := make([]byte, edits*insnLen)
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

// only returns the rows of those names, in their order, behind the ones that
// every table begins with.
func (t table[W]) only(names ...string) table[W] {
	out := slices.Clone(t[:opWait+1])
	for _, n := range names {
		out = append(out, t[t.Op(n)])
	}
	return out
}

// describe prints a program for who has to understand a failure.
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

// Op returns the operation of that name; it panics when there is none: seeds are
// written by name.
func (t table[W]) Op(name string) byte {
	for n, o := range t {
		if o.name == name {
			return byte(n)
		}
	}
	panic("hostile: no operation " + name)
}
