package daemon

import (
	"slices"
	"testing"
)

// TestApart: a client avoids the relays of its operator besides those of ExcludeNodes, and its options stay as they were.
func TestApart(t *testing.T) {
	s := NewClientSettings()
	if err := s.ReadFile("file", []byte("exclude-nodes = [\"{zz}\"]\n")); err != nil {
		t.Fatal(err)
	}
	before := s.Texts(false)["exclude-nodes"]
	for _, relays := range [][]string{{"$AA"}, {"$BB", "$CC"}, nil} {
		s.Apart(relays)
		cfg, err := s.role.(*proxyRole).config(nil)
		if err != nil || !slices.Equal(cfg.ExcludeNodes, append([]string{"{zz}"}, relays...)) {
			t.Errorf("%v: %v, %v", relays, cfg.ExcludeNodes, err)
		}
		if got := s.Texts(false)["exclude-nodes"]; got != before {
			t.Errorf("the option is %q", got)
		}
	}
}
