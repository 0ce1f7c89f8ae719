package netdoc

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// ctor15Time is when the network of testdata/ctor15 ran.
var ctor15Time = time.Date(2026, 11, 24, 14, 6, 30, 0, time.UTC)

// The microdescriptors that C tor made of descriptors are the ones that Chive
// makes.
func TestMakeMicrodesc(t *testing.T) {
	for _, c := range []struct {
		dir     string
		at      time.Time
		methods []int
		without int // descriptors without a TAP key
	}{{"ctor", ctorTime, []int{34, 35}, 0}, {"ctor15", ctor15Time, []int{34, 35, 36, 37}, 8}} {
		left := map[string]bool{}
		for one := range SplitMicrodescs(read(t, c.dir+"/microdescs")) {
			left[string(one)] = true
		}
		none := 0
		ParseRouterDescs(read(t, c.dir+"/descriptors"), c.at, func(d *RouterDesc, err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range c.methods {
				text, digest, ok := MakeMicrodesc(d, m)
				if ok != (d.OnionKey != nil || m >= NoTAPMethod) {
					t.Errorf("%s, TAP key %v, method %d: made: %v", d.Nickname, d.OnionKey != nil, m, ok)
				}
				if ok && digest != sha256.Sum256(text) {
					t.Errorf("%s, method %d: another digest than the text's", d.Nickname, m)
				}
				if ok && strings.Contains(string(text), rsaKeyObject) != (d.OnionKey != nil && m < 37) {
					t.Errorf("%s, method %d: %s", d.Nickname, m, text)
				}
				delete(left, string(text))
			}
			if d.OnionKey == nil {
				none++
			}
		})
		if none != c.without {
			t.Errorf("%s: %d descriptors without a TAP key", c.dir, none)
		}
		if len(left) > 0 {
			t.Errorf("%s: microdescriptors that Chive does not make: %q", c.dir, slices.Collect(maps.Keys(left)))
		}
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
