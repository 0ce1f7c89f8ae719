package tomlfile

import "testing"

// TestLineInTables: a key's line is that of its own table, and not that of the last one that has such a key.
func TestLineInTables(t *testing.T) {
	for doc, want := range map[string][3]int{
		"\n[[a]]\nk = 1\n[[a]]\nk = 2\n[b]\nk = 5\n[[a]]\n\nk = 3\n":          {3, 5, 10},
		"[[ a ]] # one\nk = [\n 1,\n]\n[[b]]\nk = 9\n[[a]]\nk=2\n[[a]]\nk=3":  {2, 8, 10},
		"[[a]]\nx = 1\nk = 1\n[[a]]\nx = 2\n[[a]]\nk = 3\n":                   {3, 0, 7},
		"x = \"\"\"\n[[a]]\n\"\"\"\n[[a]]\nk = 1\n[[a]]\nk = 2\n[[a]]\nk = 3": {9, 9, 9}, // one header is in a text: the parser's
	} {
		entries, err := Entries("f", []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Key != "a" {
				continue
			}
			for i, line := range want {
				if got := e.LineIn(i, "k"); got != line {
					t.Errorf("%q: table %d has the key in line %d, not %d", doc, i, got, line)
				}
			}
			if got := e.LineIn(3, "k"); got != 0 {
				t.Errorf("%q: a table that is not there has a line, %d", doc, got)
			}
		}
	}
}

// TestLineInTablesNested: a value over lines that look like tables does not end in a wrong line.
func TestLineInTablesNested(t *testing.T) {
	entries, err := Entries("f", []byte("[[a]]\nk = [\n [1],\n]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := entries[0].LineIn(0, "k"); got != 2 {
		t.Errorf("line %d", got)
	}
}
