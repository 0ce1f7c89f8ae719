package authority

import (
	"slices"
	"strings"
)

// minPackageVotes is how many votes must name a package's version.
const minPackageVotes = 3

// packages returns, for each version of a package, the line that a majority of
// the votes about it has (dir-spec, "package").
func (c *computation) packages() (out []string) {
	said := map[string][]string{} // by name and version
	for _, v := range c.votes {
		last := map[string]string{}
		for _, line := range v.Packages {
			if validPackage(line) {
				w := strings.SplitN(line, " ", 3)
				last[w[0]+" "+w[1]] = line
			}
		}
		for key, line := range last {
			said[key] = append(said[key], line)
		}
	}
	for _, lines := range said {
		if best, n := mostFrequent(lines, strings.Compare); len(lines) >= minPackageVotes && n > len(lines)/2 {
			out = append(out, best)
		}
	}
	// C tor sorts whole lines, including the line ends.
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(a+"\n", b+"\n") })
	return out
}

// validPackage reports whether the arguments of a "package" line are a name, a
// version, a URL and one digest or more.
func validPackage(line string) bool {
	w := strings.Split(line, " ")
	if len(w) < 4 || slices.Contains(w, "") {
		return false
	}
	for _, d := range w[3:] {
		typ, val, ok := strings.Cut(d, "=")
		if !ok || typ == "" || val == "" || strings.Contains(val, "=") {
			return false
		}
	}
	return true
}
