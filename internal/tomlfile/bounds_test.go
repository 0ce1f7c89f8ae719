package tomlfile

import (
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestBounds: the longest document and the deepest key pass, one more does not, and an error says in which line
// it is.
func TestBounds(t *testing.T) {
	var v map[string]any
	dots := func(n int) string { return strings.Repeat("a.", n) + "a = 1\n" }
	for _, c := range []struct {
		what, doc string
		want      string // a part of the error
	}{
		{"the longest", "a = 1\n#" + strings.Repeat("x", MaxSize-7), ""},
		{"longer", "a = 1\n#" + strings.Repeat("x", MaxSize-6), "f: "},
		{"deeper", "b = 1\n\nc = '''\n\n'''\n" + dots(maxNesting+1), "6: more than"},
		{"deep again and again", "a = [" + strings.Repeat(strings.Repeat("[", maxNesting-1)+strings.Repeat("]", maxNesting-1)+",", 3) + "]", ""},
		{"no end", "b = 1\n\nc = 'x\n", "3: "},
	} {
		v = nil
		err := Decode("f", []byte(c.doc), &v, nil)
		if (err == nil) != (c.want == "") || err != nil && (!fault.Is(err, fault.Config) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %.200v", c.what, err)
		}
	}
	if err := checkNesting([]byte(dots(maxNesting) + dots(maxNesting))); err != nil {
		t.Error("the deepest:", err)
	}
}
