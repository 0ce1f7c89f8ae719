package tomlfile

import (
	"strings"

	"github.com/BurntSushi/toml"
)

// lineInTable returns the line of a key of the i-th of n tables [[list]]; zero: it is not known. The parser has one
// position for all tables of a list, that of the last, so the table is read again alone.
func lineInTable(doc []byte, list string, i, n int, key string) int {
	lines := strings.SplitAfter(string(doc), "\n")
	var starts []int
	for at, l := range lines {
		l, _, _ = strings.Cut(l, "#")
		if strings.Join(strings.Fields(l), "") == "[["+list+"]]" {
			starts = append(starts, at)
		}
	}
	if len(starts) != n { // some are in a text, or written as [{...}, {...}]
		return 0
	}
	end := starts[i]
	for end++; end < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[end]), "["); {
		end++
	}
	var alone map[string][]map[string]toml.Primitive
	md, err := toml.Decode(strings.Join(lines[starts[i]:end], ""), &alone)
	if err != nil {
		return 0 // a line within a value began like a table
	}
	p, ok := alone[list][0][key]
	if !ok {
		return 0
	}
	return starts[i] + lineOf(&md, nil, nil, p)
}
