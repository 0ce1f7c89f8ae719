package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// survivors is the file with what no test notices. A package is there with its survivors after it has
// been run as a whole, or as one that has not been run.
type survivors struct {
	run map[string]bool // packages; false: not yet
	of  map[key]int     // how often each is there: several lines of a function may be the same
}

const survivorsHead = `# What the tests of a package do not notice: "make mutants" (see CONTRIBUTING.md) makes this file, which may
# only become shorter. A line has the package, the function, the kind of mistake and the line that it is in.
`

func readSurvivors(path string) (*survivors, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &survivors{run: map[string]bool{}, of: map[key]int{}}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		f := strings.Split(line, "\t")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case len(f) == 2 && (f[1] == "run" || f[1] == "not run"):
			s.run[f[0]] = f[1] == "run"
		case len(f) == 4:
			s.of[key{f[0], f[1], f[2], f[3]}]++
		default:
			return nil, fmt.Errorf("%s:%d: neither a package nor a survivor", path, i+1)
		}
	}
	for k := range s.of {
		if !s.run[k.pkg] {
			return nil, fmt.Errorf("%s: %s has survivors, and was not run", path, k.pkg)
		}
	}
	return s, nil
}

func (s *survivors) write(path string) error {
	var lines []string
	for pkg, run := range s.run {
		if run {
			lines = append(lines, pkg+"\trun")
		} else {
			lines = append(lines, pkg+"\tnot run")
		}
	}
	for k, n := range s.of {
		for range n {
			lines = append(lines, k.String())
		}
	}
	slices.SortFunc(lines, func(a, b string) int { // a package before its survivors
		pa, ra, _ := strings.Cut(a, "\t")
		pb, rb, _ := strings.Cut(b, "\t")
		if pa != pb {
			return strings.Compare(pa, pb)
		}
		if na, nb := strings.Count(ra, "\t"), strings.Count(rb, "\t"); na != nb {
			return na - nb
		}
		return strings.Compare(ra, rb)
	})
	return os.WriteFile(path, []byte(survivorsHead+strings.Join(lines, "\n")+"\n"), 0o644)
}

// put replaces what is known of a package that was run as a whole.
func (s *survivors) put(pkg string, found map[key]int) {
	for k := range s.of {
		if k.pkg == pkg {
			delete(s.of, k)
		}
	}
	for k, n := range found {
		s.of[k] = n
	}
	s.run[pkg] = true
}
