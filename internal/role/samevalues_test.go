package role

import "testing"

// speaker is an interface whose values a program gives.
type speaker interface{ speak() }

type pointed struct{ word string }

func (*pointed) speak() {}

type called func()

func (called) speak() {}

// TestReloadValues: values of an interface are the same if they are identical, and a function is
// not compared.
func TestReloadValues(t *testing.T) {
	type config struct{ By map[string]speaker }
	a, b := &pointed{"x"}, &pointed{"x"}
	f, g := called(func() {}), called(func() { panic("never called") })
	for name, c := range map[string]struct {
		running, next map[string]speaker
		same          bool
	}{
		"none and empty": {nil, map[string]speaker{}, true},
		"the same":       {map[string]speaker{"a": a}, map[string]speaker{"a": a}, true},
		"an equal one":   {map[string]speaker{"a": a}, map[string]speaker{"a": b}, false},
		"another name":   {map[string]speaker{"a": a}, map[string]speaker{"b": a}, false},
		"one more":       {map[string]speaker{"a": a}, map[string]speaker{"a": a, "b": a}, false},
		"gone":           {map[string]speaker{"a": a}, nil, false},
		"functions":      {map[string]speaker{"a": f}, map[string]speaker{"a": g}, true},
		"another type":   {map[string]speaker{"a": f}, map[string]speaker{"a": a}, false},
		"nil":            {map[string]speaker{"a": nil}, map[string]speaker{"a": a}, false},
		"nil both":       {map[string]speaker{"a": nil}, map[string]speaker{"a": nil}, true},
	} {
		if err := CheckReload(&config{c.running}, &config{c.next}); (err == nil) != c.same {
			t.Errorf("%s: %v", name, err)
		}
		copied := Copy(config{c.running})
		if err := CheckReload(&config{c.running}, &copied); err != nil {
			t.Errorf("%s, a copy: %v", name, err)
		}
	}
}
