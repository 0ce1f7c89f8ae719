package lang

import (
	"fmt"
	"math/bits"
)

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

func (s *byteSet) addRange(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s.add(byte(b))
	}
}

func (s *byteSet) addSet(o byteSet) {
	for i := range s {
		s[i] |= o[i]
	}
}

func (s *byteSet) negate() {
	for i := range s {
		s[i] = ^s[i]
	}
}

func (s *byteSet) size() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// class reads a character class after its opening bracket.
func (p *parser) class() byteSet {
	if p.classic {
		return p.classicClass()
	}
	open := p.pos - 1
	var set byteSet
	negated := p.accept('^')
	for first := true; ; first = false {
		at := p.pos
		b, ok := p.more()
		switch {
		case !ok:
			p.failAt(open, "unclosed [")
		case b == ']' && first:
			p.fail("empty class: write \\] for the byte ]")
		case b == ']':
			p.pos++
			if negated {
				set.negate()
			}
			if set == (byteSet{}) {
				p.failAt(open, "the class has no byte")
			}
			return set
		}
		lo, single := p.classItem()
		if !p.dashFollows() {
			set.addSet(lo)
			continue
		}
		p.pos++
		hi, singleHi := p.classItem()
		if !single || !singleHi {
			p.failAt(at, "both ends of a range must be single bytes")
		}
		l, h := lo.first(), hi.first()
		if l > h {
			p.failAt(at, "the range ends before it begins")
		}
		set.addRange(l, h)
	}
}

// dashFollows reports whether a range's dash is next, and not a literal dash
// at the end of a class.
func (p *parser) dashFollows() bool {
	return p.pos+1 < len(p.pattern) && p.pattern[p.pos] == '-' && p.pattern[p.pos+1] != ']'
}

// first returns the smallest byte of a set that has one.
func (s *byteSet) first() byte {
	for i, w := range s {
		if w != 0 {
			return byte(i*64 + bits.TrailingZeros64(w))
		}
	}
	return 0
}

// classItem reads one member of a class, and reports whether it is one byte.
func (p *parser) classItem() (set byteSet, single bool) {
	b, ok := p.more()
	switch {
	case !ok:
		p.fail("unclosed [")
	case b >= 0x80:
		p.fail("write bytes above 0x7f as \\xHH")
	case b == '[' && p.pos+1 < len(p.pattern) && p.pattern[p.pos+1] == ':':
		p.fail("named classes are not supported")
	}
	p.pos++
	if b == '\\' {
		set = p.escape(true)
		return set, set.size() == 1
	}
	set.add(b)
	return set, true
}

// classicClass reads a class as regex2dfa 0.2.2 does: a backslash is a byte
// like any other, so [\.] holds two bytes.
func (p *parser) classicClass() byteSet {
	open := p.pos - 1
	var set byteSet
	negated := p.accept('^')
	for {
		b, ok := p.more()
		if !ok {
			p.failAt(open, "unclosed [")
		}
		at := p.pos
		p.pos++
		if b == ']' {
			break
		}
		hi := b
		if p.dashFollows() {
			hi = p.pattern[p.pos+1]
			p.pos += 2
		}
		if b >= 0x80 || hi >= 0x80 {
			p.failAt(at, "write bytes above 0x7f as \\xHH")
		}
		if hi < b {
			p.failAt(at, "the range ends before it begins")
		}
		set.addRange(b, hi)
	}
	if negated {
		set.negate()
	}
	if set == (byteSet{}) {
		p.failAt(open, "the class has no byte")
	}
	return set
}

// escape reads what follows a backslash.
func (p *parser) escape(inClass bool) (set byteSet) {
	at := p.pos - 1
	b, ok := p.more()
	if !ok {
		p.failAt(at, "the pattern ends with a backslash")
	}
	p.pos++
	switch b {
	case 'n':
		set.add('\n')
	case 'r':
		set.add('\r')
	case 't':
		set.add('\t')
	case '0':
		set.add(0)
	case 'x':
		set.add(p.hex(at))
	case 'd', 'D':
		set.addRange('0', '9')
	case 'w', 'W':
		set.addRange('a', 'z')
		set.addRange('A', 'Z')
		set.addRange('0', '9')
		set.add('_')
	case 's', 'S':
		for _, c := range []byte(" \t\n\r") {
			set.add(c)
		}
		if !p.classic {
			set.add('\f')
		}
	case 'C':
		if inClass {
			p.failAt(at, "\\C means every byte and cannot stand in a class")
		}
		set.addRange(0, 255)
	case 'f', 'v':
		set.add(map[byte]byte{'f': '\f', 'v': '\v'}[b])
	default:
		if b >= 0x80 || !p.classic && (b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '1' && b <= '9') {
			p.failAt(at, fmt.Sprintf("the escape \\%c is not supported", b))
		}
		set.add(b)
	}
	switch b {
	case 'D', 'W', 'S':
		set.negate()
	}
	if p.classic && b != 'C' && b|0x20 >= 'a' && b|0x20 <= 'z' && !classicEscape(b) {
		// regex2dfa reads an unknown escape as the byte after the backslash.
		set = byteSet{}
		set.add(b)
	}
	return set
}

// classicEscape reports whether regex2dfa 0.2.2 gives the escape of b a special
// meaning.
func classicEscape(b byte) bool {
	switch b {
	case 'n', 'r', 't', 'x', 'd', 'w', 's':
		return true
	}
	return false
}

// hex reads the two digits of \xHH.
func (p *parser) hex(at int) (v byte) {
	for range 2 {
		b, _ := p.more()
		switch {
		case b >= '0' && b <= '9':
			v = v<<4 | (b - '0')
		case b|0x20 >= 'a' && b|0x20 <= 'f':
			v = v<<4 | (b | 0x20 - 'a' + 10)
		default:
			p.failAt(at, "\\x needs two hexadecimal digits")
		}
		p.pos++
	}
	return v
}
