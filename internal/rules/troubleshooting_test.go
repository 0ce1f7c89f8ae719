package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// texts are the string constants of the programs that users run, and the messages
// of their log at the levels WARN and ERROR, with where they stand.
func texts(t *testing.T) (all []string, logged map[string]string) {
	t.Helper()
	logged = map[string]string{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		if d.IsDir() {
			name := d.Name()
			if path != "." && (measures(path) || name == "testdata" || name == "tools" || name == "hostile" || name == "simnet" || strings.HasPrefix(name, ".")) {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != "." {
				return filepath.SkipDir // another module
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr, *ast.BasicLit:
				if s := joined(n.(ast.Expr)); s != "" {
					all = append(all, s)
				}
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if ok && (sel.Sel.Name == "Warn" || sel.Sel.Name == "Error") && len(n.Args) > 0 {
					if s := joined(n.Args[0]); s != "" {
						logged[s] = fset.Position(n.Pos()).String()
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, logged
}

// joined returns a string constant; what is added to it and is no constant becomes "…".
func joined(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, err := strconv.Unquote(e.Value)
			if err == nil {
				return s
			}
		}
	case *ast.BinaryExpr:
		x, y := joined(e.X), joined(e.Y)
		if e.Op == token.ADD && x+y != "" {
			return orDots(x) + orDots(y)
		}
	}
	return ""
}

func orDots(s string) string {
	if s == "" {
		return "…"
	}
	return s
}

// verb is a place that fmt fills.
var verb = regexp.MustCompile(`%[-+# 0]*[0-9]*(\.[0-9]+)?[a-zA-Z]`)

// TestTroubleshooting: each message on the page is one of the program's, with "…" for what
// changes; and the page has each message of the log at the levels WARN and ERROR.
func TestTroubleshooting(t *testing.T) {
	text, err := os.ReadFile("docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	all, logged := texts(t)
	known := map[string]bool{}
	for _, s := range all {
		known[verb.ReplaceAllString(s, "…")] = true
	}
	rows, listed := 0, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		message, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		message, _, _ = strings.Cut(message, "` |")
		rows++
		listed[message] = true
		if !known[message] {
			t.Errorf("docs/troubleshooting.md: the program does not say %q", message)
		}
	}
	for s, where := range logged {
		if !listed[verb.ReplaceAllString(s, "…")] {
			t.Errorf("%s: docs/troubleshooting.md has no row for this message of the log: %q", where, verb.ReplaceAllString(s, "…"))
		}
	}
	if rows < 100 || len(logged) < 80 {
		t.Errorf("%d rows, %d messages of the log", rows, len(logged))
	}
}
