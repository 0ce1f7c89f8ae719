package appearance

import "testing"

// TestObeys: a consensus has new parameters if it names all of them with their values.
func TestObeys(t *testing.T) {
	has := map[string]int32{"a": 0, "b": 5}
	param := func(name string, def, _, _ int32) int32 {
		if v, ok := has[name]; ok {
			return v
		}
		return def
	}
	for _, c := range []struct {
		want map[string]int
		ok   bool
	}{{map[string]int{"a": 0}, true}, {map[string]int{"a": 0, "b": 5}, true}, {map[string]int{"b": 4}, false}, {map[string]int{"c": 0}, false}} {
		if got := obeys(param, c.want); got != c.ok {
			t.Errorf("%v: %v", c.want, got)
		}
	}
}

// TestParamSteps: each step's rows look at marks that the script makes.
func TestParamSteps(t *testing.T) {
	if len(paramSteps) != 2 || paramSteps[0].name != "first" || paramSteps[1].name != "second" {
		t.Fatalf("%v", paramSteps)
	}
	for _, f := range paramFeatures() {
		f.see(&view{}) // a client of which nothing was seen
	}
}
