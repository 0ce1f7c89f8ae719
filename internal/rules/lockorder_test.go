package rules

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// neverTaken are pairs of mutexes, the one that is held first, of which TestLockOrder believes that
// the second is taken, with the reason why it is not.
var neverTaken = map[string]string{
	"inherit.set.mu > inherit.set.mu": "what was handed over is closed as it came; only a unixListener takes the lock, and it is made afterwards",
	"inherit.set.mu > relay.dos.mu":   "what was handed over is no connection of a relay",
	"pool.Pool.mu > pool.Pool.mu":     "a leasedCircuit gives its circuit back to the pool, and the pool has none",
}

// TestLockOrder compares docs/locks.md with the source: all mutexes are there, and each may be
// taken while one with a greater number is held, and never the other way round. -update writes the
// table.
func TestLockOrder(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the table is Linux's")
	}
	var paths []string
	rows := map[string]string{}
	for _, p := range listed(t) {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if l, _ := levelOf(t, p.ImportPath); l == support || measures(rel) || len(p.GoFiles) == 0 || strings.HasPrefix(rel, "internal/tools/") || rel == "internal/rules" {
			continue
		}
		paths = append(paths, p.ImportPath)
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go")) // of all platforms
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for mu, guards := range mutexes(f) {
				if guards == "" {
					t.Errorf("%s: no comment says what %s guards", name, mu)
				}
				rows[shortPath(rel)+"."+mu] = guards
			}
		}
	}
	g := buildLockGraph(t, paths)
	for _, f := range g.funcs {
		for _, mu := range f.leaves {
			if !strings.HasPrefix(mu, "defer ") {
				t.Errorf("%s returns with %s held: this test does not see what that leads to", f.name, mu)
			}
		}
	}
	for pair := range neverTaken {
		held, taken, _ := strings.Cut(pair, " > ")
		if g.edges[held][taken] == "" {
			t.Errorf("nothing seems to take %s while %s is held any more: take it off the list", taken, held)
		}
		delete(g.edges[held], taken)
	}
	for mu := range g.edges {
		if _, ok := rows[mu]; !ok && !strings.Contains(mu, "(") {
			t.Errorf("%s has no row: the two parts of this test name it differently", mu)
		}
	}
	if cycle := g.cycle(); cycle != nil {
		for i, held := range cycle {
			taken := cycle[(i+1)%len(cycle)]
			t.Errorf("%s seems to be taken while %s is held: %s", taken, held, g.edges[held][taken])
		}
		t.Fatal("goroutines that do this at one time may wait for each other for ever")
	}
	comparePage(t, "docs/locks.md", "locks", g.table(rows))
}
