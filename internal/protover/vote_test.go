package protover

import "testing"

// The cases are those of C tor's test/protover/vote, checked by hand.
func TestVote(t *testing.T) {
	for _, c := range []struct {
		sets      []string
		threshold int
		want      string
	}{
		{nil, 1, ""},
		{[]string{"Foo=1-10,21 Bar=5-7,8"}, 1, "Bar=5-8 Foo=1-10,21"},
		{[]string{"Foo=1-10,21 Bar=5-7,8", "Baz=1-5 Foo=5-10 Bar=2,4,6,8"}, 1, "Bar=2,4-8 Baz=1-5 Foo=1-10,21"},
		{[]string{"Foo=1-10,21 Bar=5-7,8", "Baz=1-5 Foo=5-10 Bar=2,4,6,8"}, 2, "Bar=6,8 Foo=5-10"},
		{[]string{"Faux=10", "Faux=10"}, 3, ""},
	} {
		var sets []Set
		for _, s := range c.sets {
			set, err := Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			sets = append(sets, set)
		}
		if got := Vote(sets, c.threshold).String(); got != c.want {
			t.Errorf("%q, %d: %q, not %q", c.sets, c.threshold, got, c.want)
		}
	}
}
