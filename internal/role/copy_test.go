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
	if err := CheckReload(&b, &a); err == nil {
		t.Error("the difference is not seen")
	}
	if none := Copy(config{}); none.Names != nil || none.Params != nil {
		t.Errorf("%+v", none)
	}
}
