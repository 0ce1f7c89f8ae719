package rules

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// torRelease is a row of docs/tor-releases.md.
type torRelease struct{ release, tickets, about, verdict, where, test string }

// torReleases reads the rows of docs/tor-releases.md.
func torReleases(t *testing.T) []torRelease {
	t.Helper()
	text, err := os.ReadFile("docs/tor-releases.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []torRelease
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| release ") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 6 {
			t.Errorf("%d cells, not 6: %s", len(cells), line)
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "`", ""))
		}
		rows = append(rows, torRelease{cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]})
	}
	return rows
}

// TestTorReleases looks for the tests and the places in the code that docs/tor-releases.md
// names: a rule that was moved or a test that was renamed must not leave a line behind.
func TestTorReleases(t *testing.T) {
	rows := torReleases(t)
	releases := map[string]bool{}
	for _, r := range rows {
		releases[r.release] = true
		name := r.release + " " + r.tickets
		if r.about == "" || r.where == "" {
			t.Errorf("%s: an empty cell", name)
		}
		switch r.verdict {
		case "not concerned":
			if r.test != "-" {
				t.Errorf("%s: not concerned, but it names a test", name)
			}
		case "mended", "withstood":
			namesCode(t, name, r.where)
			namesTests(t, name, r.test)
		default:
			t.Errorf("%s: no such verdict: %q", name, r.verdict)
		}
	}
	for _, r := range []string{"0.4.9.8", "0.4.9.9", "0.4.9.10", "0.4.9.11", "0.4.9.12", "0.4.9.13", "0.4.9.14", "0.4.9.15"} {
		if !releases[r] {
			t.Errorf("no line about %s", r)
		}
	}
}

var (
	sourceFile = regexp.MustCompile(`^[\w./-]+\.(go|txt)$`)
	goName     = regexp.MustCompile(`^(\w+\.)?\w+$`)
)

// namesCode checks the files that a cell names, the later ones perhaps without the folder of
// the one before, and the name of a function, type or constant that follows each.
func namesCode(t *testing.T, row, cell string) {
	t.Helper()
	dir, file, seen := "", "", 0
	for word := range strings.FieldsSeq(cell) {
		word = strings.Trim(word, "(),:;")
		switch {
		case sourceFile.MatchString(word):
			file = word
			if _, err := os.Stat(file); err != nil {
				file = path.Join(dir, word)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Errorf("%s: %v", row, err)
			}
			dir, file = path.Dir(file), string(text)
			seen++
		case file != "" && goName.MatchString(word):
			name := word[strings.LastIndexByte(word, '.')+1:]
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(file) {
				t.Errorf("%s: %s is not in the file before it", row, word)
			}
			file = ""
		}
	}
	if seen == 0 {
		t.Errorf("%s: %q names no file", row, cell)
	}
}

// namesTests checks the tests that a cell names, each after its package's folder or that of
// the one before.
func namesTests(t *testing.T, row, cell string) {
	t.Helper()
	tests, seen := "", 0
	for word := range strings.FieldsSeq(cell) {
		name, _, _ := strings.Cut(strings.Trim(word, "(),:;"), "/")
		if testName.MatchString(name) {
			if seen++; !strings.Contains(tests, "\nfunc "+name+"(") {
				t.Errorf("%s: no %s there", row, name)
			}
			continue
		}
		dir := strings.Trim(word, "(),:;")
		if dir == "chive" {
			dir = "."
		}
		files, err := filepath.Glob(path.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			continue
		}
		var all strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
			}
			all.Write(text)
		}
		tests = all.String()
	}
	if seen == 0 {
		t.Errorf("%s: %q names no test", row, cell)
	}
}
