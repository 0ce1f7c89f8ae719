package protover

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseAndString(t *testing.T) {
	for in, want := range map[string]string{
		"":                                  "",
		"Link=1-5 Relay=1-4":                "Link=1-5 Relay=1-4",
		"Relay=1,2,3,6 Link=4":              "Link=4 Relay=1-3,6",
		"Padding=":                          "Padding=",
		strings.Repeat("L", maxName) + "=1": strings.Repeat("L", maxName) + "=1",
		"Link=01-02 Relay=1 Link=04":        "Link=1-2,4 Relay=1",
		"Cons=1-2  Desc=0,2 HSDir=63":       "Cons=1-2 Desc=0,2 HSDir=63",
		"FlowCtrl=1-2 Conflux=1 X-Chive=1":  "Conflux=1 FlowCtrl=1-2 X-Chive=1",
	} {
		s, err := Parse(in)
		if err != nil || s.String() != want {
			t.Errorf("%q: %q, %v; want %q", in, s, err, want)
		}
	}
	for _, in := range []string{"Link", "=1", "Link=64", "Link=2-1", "Link=1-", "Link=a", "Link=+1", "Link=1,,2", "Link=99999999999",
		"Li_nk=1", "Link=1\tRelay=1", "Link=1\u00a0", "\u0130=1", "Link=1,", "Link=1=2", strings.Repeat("L", maxName+1) + "=1"} {
		if s, err := Parse(in); err == nil {
			t.Errorf("%q accepted as %q", in, s)
		}
	}
}

// A list that would take much memory is refused: a relay writes it.
func TestManyNames(t *testing.T) {
	for n, ok := range map[int]bool{maxNames: true, maxNames + 1: false} {
		var list string
		for i := range n {
			list += fmt.Sprintf("P%d=1 ", i)
		}
		if _, err := Parse(list + "P0=2"); (err == nil) != ok {
			t.Errorf("%d names: %v", n, err)
		}
	}
}

func TestHasAndMissing(t *testing.T) {
	s, _ := Parse("Link=1-5 Relay=1-4,6")
	if !s.Has(Relay, RelayNtorV3) || s.Has(Relay, RelayNegotiate) || !s.Has(Relay, RelayCGO) || s.Has(Conflux, 1) || s.Has(Link, -1) || s.Has(Link, 64) {
		t.Error("Has")
	}
	want, _ := Parse("Link=4-6 Cons=2 Relay=1")
	if m := s.Missing(want); m != "Cons=2 Link=6" {
		t.Errorf("missing %q", m)
	}
	if (Set{}).Has(Link, 1) || !(Set{}).IsZero() {
		t.Error("the zero set supports nothing")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("Link=1-5 Relay=1-4,6")
	f.Add("Desc=0-63")
	f.Fuzz(func(t *testing.T, in string) {
		s, err := Parse(in)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q -> %q -> %q, %v", in, s, again, err)
		}
	})
}
