package rules

import (
	"os"
	"strings"
	"testing"
)

// TestMutantsList: the file of survivors says of every package of the levels 0 to 9, and of no other, whether
// it was run.
func TestMutantsList(t *testing.T) {
	const file = "internal/tools/mutants/survivors.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	listedThere := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(f) == 2 {
			listedThere[f[0]] = true
		}
	}
	for _, p := range listed(t) {
		dir := strings.TrimPrefix(p.ImportPath, module+"/")
		level, ok := levelOf(t, p.ImportPath)
		if len(p.GoFiles) == 0 || !ok || level < 0 || level > 9 {
			continue
		}
		if !listedThere[dir] {
			t.Errorf("%s lacks the line %q", file, dir+"\tnot run")
		}
		delete(listedThere, dir)
	}
	for dir := range listedThere {
		t.Errorf("%s has %s, which is no package of the levels 0 to 9", file, dir)
	}
}
