package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// cycle returns mutexes each of which is taken while the one before it is held, and the first while
// the last is; nil: there are none.
func (g *lockGraph) cycle() []string {
	done := map[string]bool{}
	var path []string
	var visit func(mu string) []string
	visit = func(mu string) []string {
		if i := slices.Index(path, mu); i >= 0 {
			return slices.Clone(path[i:])
		}
		if done[mu] {
			return nil
		}
		path = append(path, mu)
		for _, next := range slices.Sorted(maps.Keys(g.edges[mu])) {
			if c := visit(next); c != nil {
				return c
			}
		}
		path = path[:len(path)-1]
		done[mu] = true
		return nil
	}
	for _, mu := range slices.Sorted(maps.Keys(g.edges)) {
		if c := visit(mu); c != nil {
			return c
		}
	}
	return nil
}

// heights numbers the mutexes: 0 if nothing is taken while they are held, else one more than the
// greatest of those that are.
func (g *lockGraph) heights() map[string]int {
	out := map[string]int{}
	var height func(mu string) int
	height = func(mu string) int {
		if n, ok := out[mu]; ok {
			return n
		}
		n := 0
		for next := range g.edges[mu] {
			n = max(n, height(next)+1)
		}
		out[mu] = n
		return n
	}
	for mu := range g.edges {
		height(mu)
	}
	return out
}

// below returns what may be held as well when a mutex is.
func (g *lockGraph) below(mu string) map[string]bool {
	out := map[string]bool{}
	for todo := []string{mu}; len(todo) > 0; todo = todo[1:] {
		for next := range g.edges[todo[0]] {
			if !out[next] {
				out[next] = true
				todo = append(todo, next)
			}
		}
	}
	return out
}

// next returns what is taken while a mutex is held, without what may be taken, too, while one of
// these is held.
func (g *lockGraph) next(mu string) []string {
	all := slices.Sorted(maps.Keys(g.edges[mu]))
	return slices.DeleteFunc(slices.Clone(all), func(b string) bool {
		return slices.ContainsFunc(all, func(c string) bool { return g.below(c)[b] })
	})
}

// table has a row for each mutex, the greatest numbers first.
func (g *lockGraph) table(rows map[string]string) string {
	height := g.heights()
	names := slices.Sorted(maps.Keys(rows))
	slices.SortStableFunc(names, func(a, b string) int { return height[b] - height[a] })
	var b strings.Builder
	b.WriteString("| number | mutex | what it protects | what is taken while it is held |\n|---|---|---|---|\n")
	for _, mu := range names {
		var next []string
		for _, x := range g.next(mu) {
			next = append(next, "`"+x+"`")
		}
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", height[mu], mu, strings.ReplaceAll(rows[mu], "|", `\|`), strings.Join(next, ", "))
	}
	return b.String()
}
