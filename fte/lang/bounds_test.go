package lang

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// maxTableSize is more than the tables of any pattern and length take together.
const maxTableSize = 100 << 20

// evenBytes is a class of every other byte: in the symbols' order, each is a
// run of its own.
func evenBytes() string {
	var b strings.Builder
	for c := 0; c < 256; c += 2 {
		fmt.Fprintf(&b, "\\x%02x", c)
	}
	return "[" + b.String() + "]"
}

// TestCountsOfNothing nests counts around what has no position. Were they
// multiplied, this would take for ever.
func TestCountsOfNothing(t *testing.T) {
	for _, x := range []struct{ pattern, word string }{
		{strings.Repeat("(", 50) + "a{0}" + strings.Repeat("){1000}", 50), ""},
		{strings.Repeat("(", 50) + "a{0}|b{0}c{0,0}" + strings.Repeat("){3,}", 50), ""},
		{"((a{0}b{0}){1000}c(d{0}){1000}){2}", "cc"},
		{"(a{0}|b){2}", "b"},
		{"(a{0})*b(c{0})+", "b"},
	} {
		l, err := Compile(x.pattern, Options{})
		if err != nil {
			t.Errorf("%.40s: %v", x.pattern, err)
		} else if !l.Match([]byte(x.word)) || l.Match([]byte("a")) {
			t.Errorf("%.40s matches something else than %q", x.pattern, x.word)
		}
	}
}

// TestTablesAreBounded has patterns whose tables would take gigabytes, or
// minutes to build: every size is refused or small.
func TestTablesAreBounded(t *testing.T) {
	classes := ""
	for c := 32; c < 127; c++ {
		classes += fmt.Sprintf("[^\\x%02x]?", c)
	}
	for name, pattern := range map[string]string{
		"many runs":      ".*" + evenBytes() + ".{9}",
		"many optionals": "(a?b?c?d?){1000}",
		"many alphabets": "(" + classes + "){8}",
	} {
		l, err := Compile(pattern, Options{})
		if err != nil {
			if !fault.Is(err, fault.Config) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		for _, n := range []int{16, 64, 256, 4096} {
			s, err := l.Slice(n)
			if err != nil {
				if !fault.Is(err, fault.Resource) && !fault.Is(err, fault.Config) {
					t.Errorf("%s: %d bytes: %v", name, n, err)
				}
				continue
			}
			if size := l.Size() + s.Size(); size > maxTableSize || len(s.runs) > maxSliceRuns {
				t.Errorf("%s: %d bytes: tables of %d bytes, %d runs", name, n, size, len(s.runs))
			}
		}
		if _, err := l.NewEncoder(); err != nil && !fault.Is(err, fault.Config) && !fault.Is(err, fault.Resource) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
