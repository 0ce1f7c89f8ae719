package daemon

import "testing"

// TestFindProgram: the program's code and its constants are found, and nothing else.
func TestFindProgram(t *testing.T) {
	found, err := findProgram()
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("nothing is found")
	}
	var size uintptr
	for _, m := range found {
		if m[0] >= m[1] {
			t.Errorf("%x-%x", m[0], m[1])
		}
		size += m[1] - m[0]
	}
	if size < 1<<20 {
		t.Errorf("%d bytes", size)
	}
}
