package role

import "testing"

// TestCopy: what happens to one configuration does not happen to its copy. A list that is
// empty stays empty, and nil stays nil.
func TestCopy(t *testing.T) {
	one := text("one")
	a := config{Network: &one, Names: []string{"a"}, Params: map[string]int{"x": 1}, Nodes: []string{}, Rate: 2}
	b := Copy(a)
	a.Names[0], a.Params["x"], a.Params["y"] = "b", 2, 3
	if b.Names[0] != "a" || len(b.Params) != 1 || b.Params["x"] != 1 || b.Nodes == nil || b.Rate != 2 || b.Network != a.Network {
		t.Errorf("%+v", b)
	}
	type lists struct{ Of map[int][]string }
	c := lists{map[int][]string{1: {"a"}, 2: nil}}
	if d := Copy(c); d.Of[2] != nil || len(d.Of) != 2 {
		t.Errorf("%+v", d)
	} else if c.Of[1][0] = "b"; d.Of[1][0] != "a" {
		t.Error("a list in a map is the caller's")
	}
	if err := CheckReload(&b, &a); err == nil {
		t.Error("the difference is not seen")
	}
	if none := Copy(config{}); none.Names != nil || none.Params != nil {
		t.Errorf("%+v", none)
	}
}
