package protover

import "testing"

// TestFirstAndLast: the first and the last version there is, and the first and last letters and digits
// of a name, are as good as others.
func TestFirstAndLast(t *testing.T) {
	for _, name := range []string{"A", "Z", "a", "z", "0", "9", "-"} {
		if _, err := Parse(name + "=1"); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"@", "[", "`", "{", "/", ":", ",", "."} {
		if _, err := Parse(name + "=1"); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
	s, err := Parse("A=0,63 B=62-63 C=1")
	if err != nil {
		t.Fatal(err)
	}
	for v := -1; v <= maxVersion+1; v++ {
		if s.Has("A", v) != (v == 0 || v == maxVersion) {
			t.Error("version", v)
		}
	}
	for name, want := range map[string]string{"A": "0,63", "B": "62-63", "C": "1", "D": ""} {
		if got := s.Versions(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestVoteOfNobody: a version that no set has is not voted for, whatever the threshold.
func TestVoteOfNobody(t *testing.T) {
	s, err := Parse("A=1")
	if err != nil {
		t.Fatal(err)
	}
	if got := Vote([]Set{s}, 0).String(); got != "A=1" {
		t.Errorf("%q", got)
	}
}
