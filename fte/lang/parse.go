package lang

import (
	"fmt"

	"github.com/chivenet/chive/internal/fault"
)

// A SyntaxError describes a problem in a pattern.
type SyntaxError struct {
	Pattern string // the whole pattern
	Pos     int    // byte offset in it, from 0
	Problem string // what is wrong there
}

// Error gives the position, the problem and the pattern.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("pattern %q: byte %d: %s", e.Pattern, e.Pos, e.Problem)
}

// maxPattern is the longest accepted pattern, in bytes.
const maxPattern = 4096

// maxRepeat is the largest accepted count in x{m,n}.
const maxRepeat = 1000

// maxDepth bounds nested groups, and with them the parser's recursion.
const maxDepth = 100

// nodeKind is the kind of a syntax node.
type nodeKind uint8

const (
	kindSet    nodeKind = iota // one byte out of a set
	kindEmpty                  // the empty word
	kindConcat                 // all of sub, in order
	kindAlt                    // one of sub
	kindRepeat                 // sub[0], min to max times; max < 0 is no limit
)

// node is one node of a pattern's syntax tree.
type node struct {
	kind     nodeKind
	set      byteSet
	sub      []*node
	min, max int
	pos      int
}

// parser reads one pattern. Its methods panic with a *SyntaxError and parse
// recovers it, because the grammar is recursive and every level can fail.
type parser struct {
	pattern string
	pos     int
	depth   int
	classic bool
}

// parse reads a pattern. With classic, it reads what regex2dfa 0.2.2 (the
// compiler of fteproxy 0.3.2) reads, where it differs from our syntax.
func parse(pattern string, classic bool) (n *node, err error) {
	if len(pattern) > maxPattern {
		return nil, fault.New(fault.Config, "the pattern has %d bytes; at most %d are allowed", len(pattern), maxPattern)
	}
	defer func() {
		if r := recover(); r != nil {
			se, ok := r.(*SyntaxError)
			if !ok {
				panic(r)
			}
			n, err = nil, fault.Wrap(fault.Config, se)
		}
	}()
	p := &parser{pattern: pattern, classic: classic}
	start := p.accept('^')
	n = p.alternation()
	if end := p.accept('$'); p.pos < len(pattern) {
		p.fail("unmatched )")
	} else if n.kind == kindAlt && (start || end) && !classic {
		p.failAt(n.pos, "alternatives next to an anchor: put them in a group")
	}
	return n, nil
}

// fail stops the parser with a problem at its position.
func (p *parser) fail(problem string) { p.failAt(p.pos, problem) }

// failAt stops the parser with a problem at a position.
func (p *parser) failAt(pos int, problem string) {
	panic(&SyntaxError{Pattern: p.pattern, Pos: pos, Problem: problem})
}

// more reports the next byte, and whether there is one.
func (p *parser) more() (byte, bool) {
	if p.pos < len(p.pattern) {
		return p.pattern[p.pos], true
	}
	return 0, false
}

// accept skips c if it is next.
func (p *parser) accept(c byte) bool {
	if b, ok := p.more(); ok && b == c {
		p.pos++
		return true
	}
	return false
}

// alternation reads branches separated by |, up to a closing bracket, a final
// $, or the end.
func (p *parser) alternation() *node {
	first := p.pos
	n := p.branch()
	if b, ok := p.more(); !ok || b != '|' {
		return n
	}
	alt := &node{kind: kindAlt, pos: p.pos, sub: []*node{n}}
	if n.kind == kindEmpty {
		p.failAt(first, "empty alternative: write (...)? for an optional part")
	}
	for p.accept('|') {
		at := p.pos
		b := p.branch()
		if b.kind == kindEmpty {
			p.failAt(at, "empty alternative: write (...)? for an optional part")
		}
		alt.sub = append(alt.sub, b)
	}
	return alt
}

// branch reads repeated atoms one after another.
func (p *parser) branch() *node {
	cat := &node{kind: kindConcat, pos: p.pos}
	for {
		b, ok := p.more()
		if !ok || b == '|' || b == ')' {
			break
		}
		if b == '$' {
			if p.pos == len(p.pattern)-1 && p.depth == 0 {
				break
			}
			p.fail("$ is allowed only at the end of a pattern")
		}
		cat.sub = append(cat.sub, p.repeat(p.atom(b)))
	}
	switch len(cat.sub) {
	case 0:
		return &node{kind: kindEmpty, pos: cat.pos}
	case 1:
		return cat.sub[0]
	}
	return cat
}

// atom reads one set or one group; b is the next byte.
func (p *parser) atom(b byte) *node {
	n := &node{kind: kindSet, pos: p.pos}
	p.pos++
	switch b {
	case '(':
		return p.group()
	case '[':
		n.set = p.class()
	case '.':
		n.set.addRange(0, 255)
	case '\\':
		n.set = p.escape(false)
	case '^':
		p.failAt(n.pos, "^ is allowed only at the start of a pattern")
	case '*', '+', '?':
		p.failAt(n.pos, fmt.Sprintf("%c has nothing to repeat", b))
	case '{', '}':
		if !p.classic {
			p.failAt(n.pos, fmt.Sprintf("%c has nothing to repeat: write \\%c for the byte itself", b, b))
		}
		n.set.add(b)
	case ']':
		if !p.classic {
			p.failAt(n.pos, "unmatched ]: write \\] for the byte itself")
		}
		n.set.add(b)
	default:
		if b >= 0x80 {
			p.failAt(n.pos, "write bytes above 0x7f as \\xHH")
		}
		n.set.add(b)
	}
	return n
}

// group reads what follows an opening bracket.
func (p *parser) group() *node {
	open := p.pos - 1
	if p.depth++; p.depth > maxDepth {
		p.failAt(open, fmt.Sprintf("groups are nested more than %d levels deep", maxDepth))
	}
	if !p.classic && p.accept('?') && !p.accept(':') {
		p.failAt(p.pos-1, "only (...) and (?:...) are supported")
	}
	n := p.alternation()
	if n.kind == kindEmpty {
		p.failAt(open, "empty group")
	}
	if !p.accept(')') {
		p.failAt(open, "unclosed (")
	}
	p.depth--
	return n
}

// repeat reads the quantifier after an atom, if there is one.
func (p *parser) repeat(atom *node) *node {
	n := &node{kind: kindRepeat, sub: []*node{atom}, pos: p.pos}
	switch b, _ := p.more(); {
	case b == '*':
		n.min, n.max = 0, -1
	case b == '+':
		n.min, n.max = 1, -1
	case b == '?':
		n.min, n.max = 0, 1
	case b == '{' && !p.classic:
		p.pos++
		n.min, n.max = p.counts()
		p.pos--
	default:
		return atom
	}
	p.pos++
	if b, ok := p.more(); ok && (b == '*' || b == '+' || b == '?' || b == '{' && !p.classic) {
		p.fail("a quantifier after a quantifier: use a group")
	}
	return n
}

// counts reads m}, m,} or m,n} and skips the bracket.
func (p *parser) counts() (min, max int) {
	min = p.number()
	switch {
	case p.accept('}'):
		return min, min
	case !p.accept(','):
		p.fail("a count is {m}, {m,} or {m,n}")
	case p.accept('}'):
		return min, -1
	}
	at := p.pos
	max = p.number()
	if max < min {
		p.failAt(at, "the upper count is below the lower")
	}
	if !p.accept('}') {
		p.fail("a count is {m}, {m,} or {m,n}")
	}
	return min, max
}

// number reads a repeat count.
func (p *parser) number() int {
	at, v := p.pos, 0
	for {
		b, ok := p.more()
		if !ok || b < '0' || b > '9' {
			break
		}
		if v = v*10 + int(b-'0'); v > maxRepeat {
			p.failAt(at, fmt.Sprintf("counts go up to %d", maxRepeat))
		}
		p.pos++
	}
	if p.pos == at {
		p.fail("a count is {m}, {m,} or {m,n}")
	}
	return v
}
