package rules

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDesign compares the table of docs/packages.md with the levels here and with
// the packages' comments. -update rewrites it.
func TestDesign(t *testing.T) {
	comparePage(t, "docs/packages.md", "levels", levelsTable(t))
}

// comparePage compares the table between two marks of a page. -update writes it.
func comparePage(t *testing.T, page, mark, want string) {
	t.Helper()
	begin, end := "<!-- "+mark+": begin -->\n", "<!-- "+mark+": end -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	table, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	if table == want {
		return
	}
	if *update {
		if err := os.WriteFile(page, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	was, is := strings.Split(table, "\n"), strings.Split(want, "\n")
	for _, line := range is {
		if !slices.Contains(was, line) {
			t.Errorf("%s lacks, or has in another place: %s", page, line)
		}
	}
	for _, line := range was {
		if !slices.Contains(is, line) {
			t.Errorf("%s has too much: %s", page, line)
		}
	}
	t.Errorf("the table is another one: go test -run %s ./internal/rules -update writes it", t.Name())
}

// TestDesignFiles looks for the files that docs/design.md names.
func TestDesignFiles(t *testing.T) {
	text, err := os.ReadFile("docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, m := range regexp.MustCompile("`([a-z]+/[a-z_0-9]+\\.go)`").FindAllStringSubmatch(string(text), -1) {
		seen++
		if _, err := os.Stat("internal/" + m[1]); err != nil {
			t.Errorf("docs/design.md: %v", err)
		}
	}
	if seen < 20 {
		t.Errorf("only %d files were found", seen)
	}
}

// levelsTable is a row for each package, by level and name.
func levelsTable(t *testing.T) string {
	t.Helper()
	type row struct {
		level      int
		path, text string
	}
	var rows []row
	for _, p := range listed(t) {
		if len(p.GoFiles) == 0 {
			continue // tests only
		}
		level, _ := levelOf(t, p.ImportPath)
		// "Package x is a thing." and "Command x does a thing."
		words := strings.SplitN(p.Doc, " ", 3)
		if len(words) < 3 || words[0] != "Package" && words[0] != "Command" {
			t.Errorf("%s: want a comment that says what it is: %q", p.ImportPath, p.Doc)
			continue
		}
		text := strings.TrimSuffix(strings.TrimPrefix(words[2], "is "), ".")
		path := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/"), "chive (the root)")
		rows = append(rows, row{level, path, strings.ReplaceAll(text, "|", `\|`)})
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.path, b.path))
	})
	var b strings.Builder
	b.WriteString("| level | package | what it is or does |\n|---|---|---|\n")
	for _, r := range rows {
		level := fmt.Sprint(r.level)
		switch r.level {
		case floor:
			level = "any may import it"
		case support:
			level = "for tests"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", level, r.path, r.text)
	}
	return b.String()
}
