package netdoc

import (
	"strings"
	"testing"
)

// The microdescriptors that C tor made of descriptors are the ones that Chive
// makes.
func TestMakeMicrodesc(t *testing.T) {
	want := map[string]bool{}
	for one := range SplitMicrodescs(read(t, "ctor/microdescs")) {
		want[string(one)] = true
	}
	n := 0
	ParseRouterDescs(read(t, "ctor/descriptors"), ctorTime, func(d *RouterDesc, err error) {
		if err != nil {
			t.Fatal(err)
		}
		text, _ := MakeMicrodesc(d, 35)
		if want[string(text)] {
			n++
		}
	})
	if n < len(want)-1 || n == 0 {
		t.Errorf("%d of %d microdescriptors", n, len(want))
	}
}

func TestCanonicalFamily(t *testing.T) {
	self := [20]byte{0xab}
	me := "$AB00000000000000000000000000000000000000"
	other := "$0123456789ABCDEF0123456789ABCDEF01234567"
	for in, want := range map[string]string{
		"":                                 me,
		"Bob alice":                        me + " alice bob",
		strings.ToLower(me):                me,
		strings.ToLower(other) + "=nick x": other + " " + me + " x",
		other[1:] + "~n " + other:          other + " " + me,
		"bad-word $12":                     "$12 " + me + " bad-word",
	} {
		if got := strings.Join(canonicalFamily(strings.Fields(in), self), " "); got != want {
			t.Errorf("%q: %q, not %q", in, got, want)
		}
	}
}
