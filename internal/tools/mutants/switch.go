package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// mark is the switch of a program that has many mistakes: eight bytes of its data, which are nowhere else
// in it. Whoever writes a mistake's number there makes that mistake, in this program and in those that it
// starts of itself.
const mark = 0x6d757461_6e742e21

// switched is what a package gets in addition. The second line keeps the compiler from taking the switch
// for a constant.
var switched = fmt.Sprintf("\nvar chiveMistake uint64 = %#x\n\nfunc chiveFlip() { chiveMistake++ }\n", uint64(mark)) + `
type chiveOrdered interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64 | ~string
}

func chiveLess[T chiveOrdered](made bool, a, b T) bool { return made && a <= b || !made && a < b }

func chiveLessEqual[T chiveOrdered](made bool, a, b T) bool { return made && a < b || !made && a <= b }

func chiveMore[T chiveOrdered](made bool, a, b T) bool { return made && a >= b || !made && a > b }

func chiveMoreEqual[T chiveOrdered](made bool, a, b T) bool { return made && a > b || !made && a >= b }

func chivePick[T any](made bool, a, b T) T {
	if made {
		return a
	}
	return b
}
`

var comparisons = map[token.Token]string{token.LSS: "chiveLess", token.LEQ: "chiveLessEqual", token.GTR: "chiveMore", token.GEQ: "chiveMoreEqual"}

// edit puts text before or after a node, or in the place of an operator.
type edit struct {
	from, to token.Pos
	after    bool
	inner    bool // closer than what else is around the same
	operator int  // its length
	text     string
}

func (e *edit) at() token.Pos {
	if e.after {
		return e.to
	}
	return e.from
}

// errNoSwitch means that a mistake cannot be made at run time, and needs a build of its own.
var errNoSwitch = errors.New("no switch can make this mistake")

// edits returns what makes a mistake while the switch has its number n, and else changes nothing. The
// lines stay as they are, so that the compiler names lines of the source.
func (p *checked) edits(m *mutant, n int) ([]edit, error) {
	made := fmt.Sprintf("(chiveMistake == %d)", n)
	around := func(x ast.Node, before, after string) []edit {
		return []edit{{from: x.Pos(), to: x.End(), text: before}, {from: x.Pos(), to: x.End(), after: true, text: after}}
	}
	if outer := p.constant[m.node]; outer != nil { // its value with the mistake is as constant
		name, ok := p.typeName(m.file, p.info.TypeOf(outer))
		from, to := p.set.Position(outer.Pos()).Offset, p.set.Position(outer.End()).Offset
		text := string(p.text[m.file][from:m.start]) + m.with + string(p.text[m.file][m.end:to])
		if !ok || strings.Contains(text, "\n") {
			return nil, errNoSwitch
		}
		return around(outer, "chivePick["+name+"]("+made+", "+text+", ", ")"), nil
	}
	switch x := m.node.(type) {
	case *ast.IfStmt:
		return around(x.Cond, "("+made+" != (", "))"), nil
	case *ast.BinaryExpr:
		if m.kind == swapped { // a || b is !(!a && !b), and looks at b as often
			e := around(x, "((", ") != "+made+")")
			e = append(e, around(x.X, "((", ") != "+made+")")...)
			return append(e, around(x.Y, "((", ") != "+made+")")...), nil
		}
		e := around(x, comparisons[x.Op]+"("+made+", ", ")")
		e[0].inner, e[1].inner = true, true
		return append(e, edit{from: x.OpPos, to: x.OpPos, operator: len(x.Op.String()), text: ","}), nil
	case *ast.ReturnStmt:
		if m.kind == noReturn {
			return around(x, "if !"+made+" { ", " }"), nil
		}
		before := string(p.text[m.file][p.set.Position(x.Pos()).Offset:m.start])
		if strings.Contains(before, "\n") {
			return nil, errNoSwitch
		}
		return around(x, "if "+made+" { "+before+m.with+" }; ", ""), nil
	case ast.Stmt:
		if m.kind == removed && strings.HasPrefix(string(p.text[m.file][m.start:m.end]), "panic(") && !p.builds(m) {
			return nil, errNoSwitch // the function would end without a return there
		}
		return around(x, "if !"+made+" { ", " }"), nil
	}
	return nil, errNoSwitch
}

// apply returns a file's text with edits. What is around something larger stands farther out.
func apply(set *token.FileSet, text []byte, edits []edit) []byte {
	order := make([]int, len(edits))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &edits[i], &edits[j]
		switch {
		case a.at() != b.at():
			return int(a.at() - b.at())
		case a.after && !b.after:
			return -1
		case b.after && !a.after:
			return 1
		case a.after: // the same the other way round, from the inside to the outside
			i, j, a, b = j, i, b, a
		}
		switch {
		case a.to-a.from != b.to-b.from:
			return int((b.to - b.from) - (a.to - a.from))
		case a.inner != b.inner:
			if a.inner {
				return 1
			}
			return -1
		}
		return i - j
	})
	var out []byte
	done := 0
	for _, i := range order {
		at := set.Position(edits[i].at()).Offset
		out = append(out, text[done:at]...)
		out = append(out, edits[i].text...)
		done = at + edits[i].operator
	}
	return append(out, text[done:]...)
}
